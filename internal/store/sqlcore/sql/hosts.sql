SELECT id, incarnation, registered_at, heard_at FROM hosts ORDER BY id
