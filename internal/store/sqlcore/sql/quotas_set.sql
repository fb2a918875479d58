INSERT INTO tenants (name, quota) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET quota = excluded.quota
