-- The words about these (class, template).
SELECT r.host, r.incarnation, r.document FROM @rows($1) AS wanted CROSS JOIN template_runs AS r
WHERE r.class = wanted.value ->> 0 AND r.template = wanted.value ->> 1
