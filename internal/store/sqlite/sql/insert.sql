INSERT INTO admissions (
    id, consumer, key, tenant, class, template, memory_mb, cpu_milli, labels, pinned_host, prefer, stateful, pool,
    mode, max_queue_age_ms, state, reason, gen, epoch, host, place, waited, late, spared_at, waiting_for, queued_at,
    present_until, hostless_at, placing_at, admitted_at, reserved_until, running_at, freed_at, ended_at)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
    ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34)
