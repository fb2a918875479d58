SELECT generation, '' AS document, applied_by, applied_at FROM config ORDER BY generation DESC LIMIT $1
