DELETE FROM orders WHERE scope = $1 AND name = $2
