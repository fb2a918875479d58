-- Rows of these pools that gave a slot back after $2.
SELECT wanted.value ->> 0,
    (SELECT count(*) FROM admissions WHERE pool = wanted.value ->> 0 AND freed_at > 0 AND freed_at > $2)
FROM @rows($1) AS wanted
