SELECT default_quota, ceiling, quota_enforcement, (SELECT count(*) FROM orders) FROM settings
