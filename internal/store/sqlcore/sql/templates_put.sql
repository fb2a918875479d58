INSERT INTO templates (class, template, known, document) VALUES ($1, $2, $3, $4)
ON CONFLICT (class, template) DO UPDATE SET known = excluded.known, document = excluded.document
