UPDATE pools SET override_cap = $2, override_since = $3, override_until = $4, override_by = $5, override_reason = $6
WHERE name = $1
