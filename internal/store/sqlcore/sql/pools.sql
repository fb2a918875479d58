-- These pools' rows, locked in the order of their names.
SELECT name, cap, max_waiting, shares, audience, slot_ttl_ms, ticket_ttl_ms, enforcement,
    override_cap, override_since, override_until, override_by, override_reason, in_force, last_place, version,
    touched_at
FROM pools
WHERE name IN (SELECT value ->> 0 FROM @rows($1) AS wanted)
ORDER BY name @lock
