INSERT INTO settings (one, default_quota, ceiling, quota_enforcement) VALUES (1, $1, $2, $3)
ON CONFLICT (one) DO UPDATE SET default_quota = excluded.default_quota, ceiling = excluded.ceiling,
    quota_enforcement = excluded.quota_enforcement
