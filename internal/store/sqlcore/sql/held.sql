-- Who holds the slots of these pools, and how many of them keep a place as they came out of the line.
SELECT a.pool, a.consumer, a.priority, count(*), sum(CASE WHEN a.state = 'placing' AND a.waited THEN 1 ELSE 0 END)
FROM @rows($1) AS wanted CROSS JOIN admissions AS a
WHERE a.pool = wanted.value ->> 0 AND a.state IN ('placing', 'admitted', 'running', 'releasing')
GROUP BY a.pool, a.consumer, a.priority
