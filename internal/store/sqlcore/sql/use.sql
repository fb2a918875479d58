-- Slots that these tenants hold.
SELECT wanted.value ->> 0,
    (SELECT count(*) FROM admissions WHERE tenant = wanted.value ->> 0 AND state IN ('placing', 'admitted', 'running', 'releasing'))
FROM @rows($1) AS wanted
