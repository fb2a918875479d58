SELECT d.document, coalesce(e.document, '') FROM decisions AS d LEFT JOIN decision_evidence AS e ON e.id = d.evidence
WHERE d.consumer = $1 AND d.key = $2 ORDER BY d.number DESC LIMIT $3
