-- These pools' rows, locked in the order of their names.
SELECT name, cap, max_waiting, in_force, last_place, version
FROM pools
WHERE name IN (SELECT value ->> 0 FROM @rows($1) AS wanted)
ORDER BY name @lock
