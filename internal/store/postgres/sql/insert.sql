INSERT INTO admissions (
    id, consumer, key, tenant, class, template, memory_mb, cpu_milli, labels, pinned_host, prefer, stateful,
    hold_on_exit, priority, pool, mode, max_queue_age_ms, state, reason, gen, epoch, host, audience, instance, place,
    waited, late, spared_at, waiting_for, queued_at, present_until, hostless_at, hostless_since, stand_at, placing_at,
    admitted_at, reserved_until, live_until, running_at, freed_at, ended_at)
SELECT
    id, consumer, key, tenant, class, template, memory_mb, cpu_milli, labels, pinned_host, prefer, stateful,
    hold_on_exit, priority, pool, mode, max_queue_age_ms, state, reason, gen, epoch, host, audience, instance, place,
    waited, late, spared_at, waiting_for, queued_at, present_until, hostless_at, hostless_since, stand_at, placing_at,
    admitted_at, reserved_until, live_until, running_at, freed_at, ended_at
FROM json_to_recordset($1::json) AS fresh (
    id text, consumer text, key text, tenant text, class text, template text, memory_mb bigint, cpu_milli bigint,
    labels text, pinned_host text, prefer boolean, stateful boolean, hold_on_exit boolean, priority bigint, pool text,
    mode text, max_queue_age_ms bigint, state text, reason text, gen bigint, epoch bigint, host text, audience text,
    instance text, place bigint, waited boolean, late boolean, spared_at bigint, waiting_for text, queued_at bigint,
    present_until bigint, hostless_at bigint, hostless_since bigint, stand_at text, placing_at bigint,
    admitted_at bigint, reserved_until bigint, live_until bigint, running_at bigint, freed_at bigint, ended_at bigint)
