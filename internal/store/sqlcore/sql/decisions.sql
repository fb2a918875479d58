-- What a key was told, $2 being its consumer, '' for any.
SELECT d.document, coalesce(e.document, '') FROM decisions AS d LEFT JOIN decision_evidence AS e ON e.id = d.evidence
WHERE d.key = $1 AND ($2 = '' OR d.consumer = $2) ORDER BY d.number DESC LIMIT $3
