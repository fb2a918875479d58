-- These tenants' rows, locked in the order of their names, after every pool's.
SELECT name, quota
FROM tenants
WHERE name IN (SELECT value ->> 0 FROM @rows($1) AS wanted)
ORDER BY name @lock
