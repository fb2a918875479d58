UPDATE join_tokens SET used_at = $2, used_by = $3 WHERE id = $1
