INSERT INTO admissions (
    id, consumer, key, tenant, class, template, memory_mb, cpu_milli, labels, pinned_host, prefer, stateful,
    hold_on_exit, priority, pool, mode, max_queue_age_ms, state, reason, gen, epoch, host, audience, instance, place,
    waited, late, spared_at, waiting_for, queued_at, present_until, hostless_at, hostless_since, stand_at, placing_at,
    admitted_at, reserved_until, live_until, running_at, freed_at, ended_at)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
    ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41)
