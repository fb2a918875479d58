INSERT INTO observed (number, consumer, key, host, at, yes, document) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (number) DO UPDATE SET document = excluded.document
