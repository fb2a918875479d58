INSERT INTO hosts (id, incarnation, registered_at, heard_at) VALUES ($1, $2, $3, $3)
ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, registered_at = excluded.registered_at,
    heard_at = excluded.heard_at
