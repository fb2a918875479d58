-- What is counted of these pools, but for their lines: slots held, and places kept by those
-- who came out of the line.
SELECT wanted.value ->> 0,
    (SELECT count(*) FROM admissions WHERE pool = wanted.value ->> 0 AND state IN ('placing', 'admitted', 'running', 'releasing')),
    (SELECT count(*) FROM admissions WHERE pool = wanted.value ->> 0 AND state = 'placing' AND waited)
FROM @rows($1) AS wanted
