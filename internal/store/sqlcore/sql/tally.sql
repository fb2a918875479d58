-- What is counted of these pools, but for their lines: slots held, rows that gave a slot
-- back after $2, and places kept by those who came out of the line.
SELECT wanted.value ->> 0,
    (SELECT count(*) FROM admissions WHERE pool = wanted.value ->> 0 AND state IN ('placing', 'admitted', 'running', 'releasing')),
    (SELECT count(*) FROM admissions WHERE pool = wanted.value ->> 0 AND freed_at > 0 AND freed_at > $2),
    (SELECT count(*) FROM admissions WHERE pool = wanted.value ->> 0 AND state = 'placing' AND waited)
FROM @rows($1) AS wanted
