INSERT INTO admissions (
    id, consumer, key, tenant, class, template, memory_mb, cpu_milli, labels, pinned_host, prefer, stateful, pool,
    mode, max_queue_age_ms, state, reason, gen, epoch, host, place, waited, late, spared_at, waiting_for, queued_at,
    present_until, hostless_at, placing_at, admitted_at, reserved_until, running_at, freed_at, ended_at)
SELECT
    value ->> 'id', value ->> 'consumer', value ->> 'key', value ->> 'tenant', value ->> 'class',
    value ->> 'template', CAST(value ->> 'memory_mb' AS bigint), CAST(value ->> 'cpu_milli' AS bigint),
    value ->> 'labels', value ->> 'pinned_host', CAST(value ->> 'prefer' AS boolean),
    CAST(value ->> 'stateful' AS boolean), value ->> 'pool', value ->> 'mode',
    CAST(value ->> 'max_queue_age_ms' AS bigint), value ->> 'state', value ->> 'reason',
    CAST(value ->> 'gen' AS bigint), CAST(value ->> 'epoch' AS bigint), value ->> 'host',
    CAST(value ->> 'place' AS bigint), CAST(value ->> 'waited' AS boolean), CAST(value ->> 'late' AS boolean),
    CAST(value ->> 'spared_at' AS bigint), value ->> 'waiting_for', CAST(value ->> 'queued_at' AS bigint),
    CAST(value ->> 'present_until' AS bigint), CAST(value ->> 'hostless_at' AS bigint),
    CAST(value ->> 'placing_at' AS bigint), CAST(value ->> 'admitted_at' AS bigint),
    CAST(value ->> 'reserved_until' AS bigint), CAST(value ->> 'running_at' AS bigint),
    CAST(value ->> 'freed_at' AS bigint), CAST(value ->> 'ended_at' AS bigint)
FROM @rows($1) AS fresh
