INSERT INTO audit (done_at, done_by, what, reason, origin) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (origin) WHERE origin <> '' DO NOTHING
