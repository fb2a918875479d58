-- Gives tenants never seen before a row that can be locked.
INSERT INTO tenants (name)
SELECT value ->> 0 FROM @rows($1) AS fresh WHERE true ORDER BY 1
ON CONFLICT DO NOTHING
