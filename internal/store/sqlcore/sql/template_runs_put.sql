INSERT INTO template_runs (class, template, host, incarnation, sequence, document)
SELECT value ->> 0, value ->> 1, value ->> 2, CAST(value ->> 3 AS bigint), CAST(value ->> 4 AS bigint), value ->> 5
FROM @rows($1) AS said WHERE true
ON CONFLICT (class, template, host, incarnation) DO UPDATE SET sequence = excluded.sequence, document = excluded.document
