-- Moves an admission, only if it still is as it was loaded.
UPDATE admissions SET
    state = ?16, reason = ?17, gen = ?18, epoch = ?19, host = ?20, place = ?21, waited = ?22, late = ?23,
    spared_at = ?24, waiting_for = ?25, queued_at = ?26, present_until = ?27, hostless_at = ?28, placing_at = ?29,
    admitted_at = ?30, reserved_until = ?31, running_at = ?32, freed_at = ?33, ended_at = ?34
WHERE id = ?1 AND state = ?35 AND gen = ?36 AND epoch = ?37
