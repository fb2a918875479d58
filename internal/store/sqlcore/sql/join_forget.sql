-- Forgets the tokens that were used or ended at $1 or before.
DELETE FROM join_tokens WHERE CASE WHEN used_at > 0 THEN used_at ELSE expires_at END <= $1
