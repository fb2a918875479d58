-- The waiters of these pools in order: what pool.Books.Line asks for.
SELECT a.id, a.consumer, a.pool, a.tenant, a.class, a.labels, a.pinned_host, a.priority, a.max_queue_age_ms, a.place,
    a.late, a.spared_at, a.queued_at, a.present_until, a.hostless_at
FROM @rows($1) AS wanted CROSS JOIN admissions AS a
WHERE a.pool = wanted.value ->> 0 AND a.state = 'waiting_capacity'
ORDER BY a.pool, a.place
