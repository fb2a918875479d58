-- The tokens that neither were used nor ended at $1 or before, newest first.
SELECT id, sha256, host, created_by, created_at, expires_at, used_at, used_by FROM join_tokens
WHERE CASE WHEN used_at > 0 THEN used_at ELSE expires_at END > $1
ORDER BY created_at DESC, id
