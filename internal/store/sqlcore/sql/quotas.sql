SELECT name, quota
FROM tenants
WHERE quota IS NOT NULL AND name IN (SELECT value ->> 0 FROM @rows($1) AS wanted)
