INSERT INTO config (generation, document, applied_by, applied_at) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
