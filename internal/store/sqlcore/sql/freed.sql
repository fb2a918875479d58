-- When rows of these pools gave a slot back, after $2.
SELECT a.pool, a.freed_at, count(*)
FROM @rows($1) AS wanted CROSS JOIN admissions AS a
WHERE a.pool = wanted.value ->> 0 AND a.freed_at > 0 AND a.freed_at > $2
GROUP BY a.pool, a.freed_at
