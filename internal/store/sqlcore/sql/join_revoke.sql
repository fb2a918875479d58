DELETE FROM join_tokens WHERE id = $1
