-- Admissions that the sweep may have to change: placings since $1 or before, waiters out of
-- patience and slots without a host that nothing was heard of at $2, ends at $3 or before,
-- what is stateless on the hosts $4, and all on the hosts $5.
-- In no order: to be given one, SQLite would go through the whole table by id.
SELECT id FROM admissions WHERE state = 'placing' AND placing_at <= $1
UNION ALL
SELECT id FROM admissions WHERE state = 'waiting_capacity' AND queued_at + max_queue_age_ms <= $2
UNION ALL
SELECT id FROM admissions WHERE audience <> '' AND live_until <= $2
UNION ALL
SELECT id FROM admissions WHERE ended_at > 0 AND ended_at <= $3
UNION ALL
SELECT a.id FROM @rows($4) AS dead CROSS JOIN admissions AS a
WHERE a.host <> '' AND a.host = dead.value ->> 0 AND NOT a.stateful
UNION ALL
SELECT a.id FROM @rows($5) AS buried CROSS JOIN admissions AS a
WHERE a.host <> '' AND a.host = buried.value ->> 0
