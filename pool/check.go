package pool

import "fmt"

// CheckInvariants proves what always holds of a store's rows; tests and simulations call
// it after every step. The cap is not among it: lowering one evicts nobody.
func (m *Model) CheckInvariants() error {
	places := map[string]string{} // pool and place -> id
	for id, r := range m.mem.rows {
		if err := r.Check(); err != nil {
			return err
		}
		if r.ID != id || m.mem.byKey[[2]string{r.Consumer, r.Key}] != id {
			return fmt.Errorf("admission %s: not found under its own id and key", id)
		}
		if warm := m.mem.warm[id]; warm != r && (warm != nil || !r.State.Ended() || r.freedLately(m.mem.now)) {
			return fmt.Errorf("admission %s (%s): still counts, and is not among those that do", id, r.State)
		}
		if r.Gen > m.mem.seq {
			return fmt.Errorf("admission %s: generation %d was never taken from the sequence (%d)", id, r.Gen, m.mem.seq)
		}
		at := fmt.Sprintf("%s %d", r.Pool, r.Place)
		if other, taken := places[at]; taken && r.Place != 0 {
			return fmt.Errorf("admissions %s and %s: both at place %s", id, other, at)
		}
		places[at] = id
	}
	if len(m.mem.byKey) != len(m.mem.rows) {
		return fmt.Errorf("%d keys for %d admissions", len(m.mem.byKey), len(m.mem.rows))
	}
	return nil
}

// Check proves what always holds of one row; stores hold the same as CHECK constraints.
func (r *Row) Check() error {
	bad := func(what string) error { return fmt.Errorf("admission %s (%s): %s", r.ID, r.State, what) }
	switch {
	case r.State.OnHost() && ((r.Host == "") == (r.Audience == "") || r.Epoch == 0):
		return bad("held neither by a host nor for an audience")
	case !r.State.OnHost() && (r.Host != "" || r.Audience != ""):
		return bad("names a host or an audience that does not hold it")
	case r.live() && r.LiveUntil == 0:
		return bad("without a host, and lives for ever")
	case r.State == Releasing && r.Audience != "":
		return bad("releasing, and no host has to let go")
	case r.StandAt != "" && r.State != Waiting && r.State != Placing:
		return bad("has memory set aside, and does not wait for it")
	case r.Gen < r.Epoch:
		return bad("generation below its epoch")
	case r.State == Placing && r.Gen == 0:
		return bad("placing without a generation")
	case r.State == Waiting && (r.Mode != Queue || r.Place == 0 || r.WaitingFor == ""):
		return bad("waiting without a place")
	case r.State.Ended() && (r.EndedAt == 0 || r.Place != 0):
		return bad("ended, and still in line or without the time of its end")
	case r.State == Running && r.RunningAt == 0:
		return bad("running since never")
	}
	return nil
}
