-- Of those that are not buried and have not left: as pool.Pulse.Silent counts.
SELECT coalesce(sum(CASE WHEN heard_at <= $1 AND registered_at <= $1 THEN 1 ELSE 0 END), 0), count(*)
FROM hosts WHERE state <> 'buried' AND (heard_at > $2 OR registered_at > $2
    OR EXISTS (SELECT 1 FROM admissions WHERE host <> '' AND host = hosts.id AND state IN ('admitted', 'running', 'releasing')))
