INSERT INTO hosts (id, incarnation, endpoint, state, credential, version, bounds, registered_at, heard_at, buried_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, endpoint = excluded.endpoint, state = excluded.state,
    credential = excluded.credential, version = excluded.version, bounds = excluded.bounds,
    registered_at = excluded.registered_at, heard_at = excluded.heard_at, buried_at = excluded.buried_at
