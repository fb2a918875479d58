-- Who holds the slots of each pool, and how many of them run.
SELECT pool, consumer, priority, count(*), sum(CASE WHEN state = 'running' THEN 1 ELSE 0 END)
FROM admissions
WHERE state IN ('placing', 'admitted', 'running', 'releasing')
GROUP BY pool, consumer, priority
