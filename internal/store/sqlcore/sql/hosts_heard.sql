-- A lease begins with the registration.
UPDATE hosts SET heard_at = $2
WHERE id IN (SELECT value ->> 0 FROM @rows($1) AS heard)
  AND state <> 'buried' AND heard_at <= $3 AND registered_at <= $3
