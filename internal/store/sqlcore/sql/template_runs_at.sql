-- How far the words of these hosts are.
SELECT r.class, r.template, r.host, r.incarnation, r.sequence FROM @rows($1) AS wanted CROSS JOIN template_runs AS r
WHERE r.host = wanted.value ->> 0
