INSERT INTO decisions (id, consumer, key, evidence, document, at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, CAST($2 AS bigint) FROM @rows($1) AS told WHERE true
ON CONFLICT (id) DO NOTHING
