-- Moves admissions, only if they still are as they were loaded.
UPDATE admissions AS a SET
    state = r.state, reason = r.reason, gen = r.gen, epoch = r.epoch, host = r.host, audience = r.audience,
    instance = r.instance, place = r.place, waited = r.waited, late = r.late, spared_at = r.spared_at,
    waiting_for = r.waiting_for, queued_at = r.queued_at, present_until = r.present_until,
    hostless_at = r.hostless_at, hostless_since = r.hostless_since, stand_at = r.stand_at, placing_at = r.placing_at,
    admitted_at = r.admitted_at, reserved_until = r.reserved_until, live_until = r.live_until,
    running_at = r.running_at, freed_at = r.freed_at, ended_at = r.ended_at
FROM json_to_recordset($1::json) AS r (
    id text, state text, reason text, gen bigint, epoch bigint, host text, audience text, instance text, place bigint,
    waited boolean, late boolean, spared_at bigint, waiting_for text, queued_at bigint, present_until bigint,
    hostless_at bigint, hostless_since bigint, stand_at text, placing_at bigint, admitted_at bigint,
    reserved_until bigint, live_until bigint, running_at bigint, freed_at bigint, ended_at bigint, was_state text,
    was_gen bigint, was_epoch bigint)
WHERE a.id = r.id AND a.state = r.was_state AND a.gen = r.was_gen AND a.epoch = r.was_epoch
