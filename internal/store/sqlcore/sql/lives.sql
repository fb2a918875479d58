-- The incarnations of these hosts.
SELECT h.id, h.incarnation FROM @rows($1) AS wanted CROSS JOIN hosts AS h
WHERE h.id = wanted.value ->> 0
