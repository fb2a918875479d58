INSERT INTO audit (done_at, done_by, what, reason) VALUES ($1, $2, $3, $4)
