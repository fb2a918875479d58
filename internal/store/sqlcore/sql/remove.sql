-- Forgets admissions, only if they still are as they were loaded.
DELETE FROM admissions
WHERE (id, state, gen, epoch) IN (
    SELECT value ->> 'id', value ->> 'was_state', CAST(value ->> 'was_gen' AS bigint), CAST(value ->> 'was_epoch' AS bigint)
    FROM @rows($1) AS gone)
