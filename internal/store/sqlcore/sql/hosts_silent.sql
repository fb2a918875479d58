SELECT coalesce(sum(CASE WHEN heard_at <= $1 AND registered_at <= $1 THEN 1 ELSE 0 END), 0), count(*)
FROM hosts WHERE state <> 'buried'
