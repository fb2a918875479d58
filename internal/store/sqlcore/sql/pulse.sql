UPDATE pulse SET beat_at = $1, heard_since = $2 WHERE one = 1
