-- All that is kept of these (class, template).
SELECT t.class, t.template, t.document FROM @rows($1) AS wanted CROSS JOIN templates AS t
WHERE t.class = wanted.value ->> 0 AND t.template = wanted.value ->> 1
