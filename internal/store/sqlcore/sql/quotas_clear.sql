UPDATE tenants SET quota = NULL WHERE quota IS NOT NULL
