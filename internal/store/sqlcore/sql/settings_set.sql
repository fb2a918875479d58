INSERT INTO settings (one, default_quota, ceiling) VALUES (1, $1, $2)
ON CONFLICT (one) DO UPDATE SET default_quota = excluded.default_quota, ceiling = excluded.ceiling
