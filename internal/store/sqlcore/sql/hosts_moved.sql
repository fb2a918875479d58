UPDATE pulse SET hosts_version = hosts_version + 1 WHERE one = 1
