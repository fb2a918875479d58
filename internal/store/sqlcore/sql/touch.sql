-- Says that admissions of these pools changed, so that what others counted of them is void.
UPDATE pools SET last_place = r.last_place, version = version + 1, touched_at = r.touched_at, freed = pools.freed + r.freed
FROM (SELECT value ->> 'name' AS name, CAST(value ->> 'last_place' AS bigint) AS last_place,
        CAST(value ->> 'was_version' AS bigint) AS was_version,
        CAST(value ->> 'touched_at' AS bigint) AS touched_at, CAST(value ->> 'freed' AS bigint) AS freed
    FROM @rows($1) AS touched) AS r
WHERE pools.name = r.name AND pools.version = r.was_version
