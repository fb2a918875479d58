SELECT beat_at, heard_since, hosts_since, coalesce((SELECT min(slot_ttl_ms) FROM pools WHERE in_force AND audience <> ''), 0)
FROM pulse WHERE one = 1 @lock
