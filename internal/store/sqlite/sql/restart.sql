-- Starts a key anew, only if its former admission still is as it was loaded.
UPDATE admissions SET
    tenant = ?4, class = ?5, template = ?6, memory_mb = ?7, cpu_milli = ?8, labels = ?9, pinned_host = ?10,
    prefer = ?11, stateful = ?12, hold_on_exit = ?13, priority = ?14, pool = ?15, mode = ?16, max_queue_age_ms = ?17,
    state = ?18, reason = ?19, gen = ?20, epoch = ?21, host = ?22, audience = ?23, instance = ?24, place = ?25,
    waited = ?26, late = ?27, spared_at = ?28, waiting_for = ?29, queued_at = ?30, present_until = ?31,
    hostless_at = ?32, hostless_since = ?33, stand_at = ?34, placing_at = ?35, admitted_at = ?36,
    reserved_until = ?37, live_until = ?38, running_at = ?39, freed_at = ?40, ended_at = ?41
WHERE id = ?1 AND state = ?42 AND gen = ?43 AND epoch = ?44
