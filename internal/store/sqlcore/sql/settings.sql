SELECT default_quota, ceiling FROM settings
