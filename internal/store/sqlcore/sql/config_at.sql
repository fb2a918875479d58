SELECT generation, document, applied_by, applied_at FROM config WHERE generation = $1
