-- The words of these hosts.
SELECT r.host, r.incarnation, r.document FROM @rows($1) AS wanted CROSS JOIN template_runs AS r
WHERE r.host = wanted.value ->> 0
