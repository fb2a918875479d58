UPDATE hosts SET heard_at = $2
WHERE id IN (SELECT value ->> 0 FROM @rows($1) AS heard)
