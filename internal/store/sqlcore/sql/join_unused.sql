SELECT id, sha256, host, created_by, created_at, expires_at, used_at, used_by FROM join_tokens WHERE id = $1 AND used_at = 0
