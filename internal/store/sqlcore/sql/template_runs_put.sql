INSERT INTO template_runs (class, template, host, incarnation, sequence, document) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (class, template, host, incarnation) DO UPDATE SET sequence = excluded.sequence, document = excluded.document
