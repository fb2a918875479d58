INSERT INTO replicas (id, address, version, key_ids, heard_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE SET address = excluded.address, version = excluded.version, key_ids = excluded.key_ids,
    heard_at = excluded.heard_at
