-- Who holds the slots of each pool.
SELECT pool, consumer, priority, count(*)
FROM admissions
WHERE state IN ('placing', 'admitted', 'running', 'releasing')
GROUP BY pool, consumer, priority
