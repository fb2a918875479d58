SELECT default_quota FROM settings
