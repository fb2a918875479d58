-- The newest instant that any row knows.
SELECT coalesce(max(at), 0) FROM (
    SELECT max(queued_at) AS at FROM admissions
    UNION ALL SELECT max(placing_at) FROM admissions
    UNION ALL SELECT max(admitted_at) FROM admissions
    UNION ALL SELECT max(running_at) FROM admissions
    UNION ALL SELECT max(freed_at) FROM admissions
    UNION ALL SELECT max(ended_at) FROM admissions
    UNION ALL SELECT max(override_since) FROM pools
    UNION ALL SELECT max(applied_at) FROM config
    UNION ALL SELECT max(registered_at) FROM hosts
    UNION ALL SELECT max(heard_at) FROM hosts
    UNION ALL SELECT max(heard_at) FROM replicas
    UNION ALL SELECT max(done_at) FROM audit
    UNION ALL SELECT max(at) FROM pulse
    UNION ALL SELECT max(beat_at) FROM pulse
) AS instants
