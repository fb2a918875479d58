UPDATE pulse SET beat_at = $1, heard_since = $2, hosts_since = $3 WHERE one = 1
