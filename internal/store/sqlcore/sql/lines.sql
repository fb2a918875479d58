-- What each pool in force shows, but for who holds its slots.
SELECT name, cap, max_waiting, shares, audience, slot_ttl_ms, ticket_ttl_ms, enforcement,
    override_cap, override_since, override_until, override_by, override_reason,
    (SELECT count(*) FROM admissions WHERE pool = name AND state = 'waiting_capacity')
FROM pools
WHERE in_force
ORDER BY name
