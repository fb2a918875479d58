INSERT INTO decision_evidence (id, document, at)
SELECT value ->> 0, value ->> 1, CAST($2 AS bigint) FROM @rows($1) AS seen WHERE true
ON CONFLICT (id) DO UPDATE SET at = excluded.at
