-- The newest instant that any row knows.
SELECT coalesce(max(at), 0) FROM (
    SELECT max(queued_at) AS at FROM admissions
    UNION ALL SELECT max(placing_at) FROM admissions
    UNION ALL SELECT max(admitted_at) FROM admissions
    UNION ALL SELECT max(running_at) FROM admissions
    UNION ALL SELECT max(freed_at) FROM admissions
    UNION ALL SELECT max(ended_at) FROM admissions
    UNION ALL SELECT max(applied_at) FROM config
    UNION ALL SELECT max(registered_at) FROM hosts
    UNION ALL SELECT max(at) FROM pulse
) AS instants
