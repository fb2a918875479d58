INSERT INTO pools (name, cap, max_waiting, in_force) VALUES ($1, $2, $3, true)
ON CONFLICT (name) DO UPDATE SET cap = excluded.cap, max_waiting = excluded.max_waiting, in_force = true
