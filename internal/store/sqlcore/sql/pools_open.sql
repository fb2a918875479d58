INSERT INTO pools (name, cap, max_waiting, shares, audience, slot_ttl_ms, ticket_ttl_ms, enforcement, in_force)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, true)
ON CONFLICT (name) DO UPDATE SET cap = excluded.cap, max_waiting = excluded.max_waiting, shares = excluded.shares,
    audience = excluded.audience, slot_ttl_ms = excluded.slot_ttl_ms, ticket_ttl_ms = excluded.ticket_ttl_ms,
    enforcement = excluded.enforcement, in_force = true
