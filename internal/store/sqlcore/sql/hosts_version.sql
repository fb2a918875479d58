SELECT hosts_version FROM pulse WHERE one = 1
