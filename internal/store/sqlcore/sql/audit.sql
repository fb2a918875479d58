SELECT done_at, done_by, what, reason FROM audit ORDER BY id DESC LIMIT $1
