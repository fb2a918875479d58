INSERT INTO join_tokens (id, sha256, host, created_by, created_at, expires_at, used_at, used_by)
VALUES ($1, $2, $3, $4, $5, $6, 0, '')
