SELECT a.id, a.consumer, a.key, a.tenant, a.class, a.template, a.memory_mb, a.cpu_milli, a.labels, a.pinned_host,
       a.prefer, a.stateful, a.hold_on_exit, a.priority, a.pool, a.mode, a.max_queue_age_ms, a.state, a.reason, a.gen,
       a.epoch, a.host, a.audience, a.instance, a.place, a.waited, a.late, a.spared_at, a.waiting_for, a.queued_at,
       a.present_until, a.hostless_at, a.hostless_since, a.stand_at, a.placing_at, a.admitted_at, a.reserved_until,
       a.live_until, a.running_at, a.freed_at, a.ended_at
FROM admissions AS a
WHERE true
