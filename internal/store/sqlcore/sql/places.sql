UPDATE pools SET last_place = r.last_place
FROM (SELECT value ->> 'name' AS name, CAST(value ->> 'last_place' AS bigint) AS last_place,
        CAST(value ->> 'was_place' AS bigint) AS was_place
    FROM @rows($1) AS moved) AS r
WHERE pools.name = r.name AND pools.last_place = r.was_place
