-- Moves admissions, only if they still are as they were loaded.
UPDATE admissions AS a SET
    state = r.state, reason = r.reason, gen = r.gen, epoch = r.epoch, host = r.host, place = r.place,
    waited = r.waited, late = r.late, spared_at = r.spared_at, waiting_for = r.waiting_for, queued_at = r.queued_at,
    present_until = r.present_until, hostless_at = r.hostless_at, placing_at = r.placing_at,
    admitted_at = r.admitted_at, reserved_until = r.reserved_until, running_at = r.running_at, freed_at = r.freed_at,
    ended_at = r.ended_at
FROM (SELECT
    value ->> 'id' AS id, value ->> 'state' AS state, value ->> 'reason' AS reason,
    CAST(value ->> 'gen' AS bigint) AS gen, CAST(value ->> 'epoch' AS bigint) AS epoch, value ->> 'host' AS host,
    CAST(value ->> 'place' AS bigint) AS place, CAST(value ->> 'waited' AS boolean) AS waited,
    CAST(value ->> 'late' AS boolean) AS late, CAST(value ->> 'spared_at' AS bigint) AS spared_at,
    value ->> 'waiting_for' AS waiting_for, CAST(value ->> 'queued_at' AS bigint) AS queued_at,
    CAST(value ->> 'present_until' AS bigint) AS present_until,
    CAST(value ->> 'hostless_at' AS bigint) AS hostless_at, CAST(value ->> 'placing_at' AS bigint) AS placing_at,
    CAST(value ->> 'admitted_at' AS bigint) AS admitted_at,
    CAST(value ->> 'reserved_until' AS bigint) AS reserved_until,
    CAST(value ->> 'running_at' AS bigint) AS running_at, CAST(value ->> 'freed_at' AS bigint) AS freed_at,
    CAST(value ->> 'ended_at' AS bigint) AS ended_at, value ->> 'was_state' AS was_state,
    CAST(value ->> 'was_gen' AS bigint) AS was_gen, CAST(value ->> 'was_epoch' AS bigint) AS was_epoch
    FROM @rows($1) AS changed) AS r
WHERE a.id = r.id AND a.state = r.was_state AND a.gen = r.was_gen AND a.epoch = r.was_epoch
