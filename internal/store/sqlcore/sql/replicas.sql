SELECT id, address, version, key_ids, heard_at FROM replicas WHERE heard_at > $1 ORDER BY id
