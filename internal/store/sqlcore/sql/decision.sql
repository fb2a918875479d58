SELECT d.document, coalesce(e.document, '') FROM decisions AS d LEFT JOIN decision_evidence AS e ON e.id = d.evidence
WHERE d.id = $1
