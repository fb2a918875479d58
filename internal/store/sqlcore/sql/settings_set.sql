INSERT INTO settings (one, default_quota) VALUES (1, $1)
ON CONFLICT (one) DO UPDATE SET default_quota = excluded.default_quota
