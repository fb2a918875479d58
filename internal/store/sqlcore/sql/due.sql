-- Admissions that the sweep may have to change: placings since $1 or before, waiters out of
-- patience at $2, ends at $3 or before.
SELECT id FROM admissions WHERE state = 'placing' AND placing_at <= $1
UNION ALL
SELECT id FROM admissions WHERE state = 'waiting_capacity' AND queued_at + max_queue_age_ms <= $2
UNION ALL
SELECT id FROM admissions WHERE ended_at > 0 AND ended_at <= $3
ORDER BY 1
