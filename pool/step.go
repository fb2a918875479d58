package pool

import "time"

// The functions of this file move one row. Stores load a row under its pool's lock,
// call one of them, and write the row back: the rule stands here alone.

// Claim is a caller's wish for a slot.
type Claim struct {
	ID          string // for a row that must be made
	Consumer    string
	Key         string
	Contents    Contents
	Pool        string
	Mode        Mode
	MaxQueueAge time.Duration
	Attempt     bool          // by key alone: no new row, contents not compared
	Present     time.Duration // how far ahead the caller's long poll is held
}

// Claimed is what became of a claim.
type Claimed struct {
	Verdict  Verdict
	Row      Row
	Standing Standing
	Would    Verdict // of a grant in shadow: what enforce would have said; "" for the same
}

// Before says what a claim gets from the row that its key already has, without looking
// at the pool; ok is false when the pool must decide.
func Before(r *Row, c Claim, now Time) (v Verdict, ok bool) {
	switch {
	case r == nil && c.Attempt:
		return NoSuchKey, true
	case r == nil:
		return "", false
	case r.State.Ended() && c.Attempt:
		return endedVerdict(r), true
	case r.State.Ended():
		return "", false
	case !c.Attempt && !r.Contents.same(c.Contents):
		return Conflict, true
	case r.State == Admitted || r.State == Running:
		return Existing, true
	case r.State == Releasing:
		return BusyLeaving, true
	case r.State == Placing && now.Since(r.PlacingAt) < PlacingFor:
		return BusyPlacing, true
	}
	return "", false
}

// same compares what the caller said; what its class is like is the operator's word, and a
// change of that makes no caller's repetition a conflict.
func (c Contents) same(d Contents) bool {
	d.Stateful, d.HoldOnExit, d.Priority = c.Stateful, c.HoldOnExit, c.Priority
	return c == d
}

func endedVerdict(r *Row) Verdict {
	if r.State == TimedOut {
		return PatienceOut
	}
	return HasEnded
}

// NewRow starts a passage, keeping the identity and the epochs of the key's former one.
func NewRow(old *Row, c Claim, now Time) Row {
	r := Row{ID: c.ID, Consumer: c.Consumer, Key: c.Key, Contents: c.Contents, Pool: c.Pool, Mode: c.Mode, MaxQueueAge: c.MaxQueueAge}
	if old != nil {
		r.ID, r.Gen, r.Epoch, r.FreedAt = old.ID, old.Gen, old.Epoch, old.FreedAt
	}
	if r.Mode == Queue {
		r.QueuedAt = now
	}
	return r
}

// Grant gives the row a slot and a generation.
func (r *Row) Grant(now Time, gen int64) {
	r.State, r.Gen, r.PlacingAt = Placing, gen, now
	r.WaitingFor, r.Late, r.SparedAt, r.PresentUntil = "", false, 0, 0
}

// Wait puts the row in the line, at its place.
func (r *Row) Wait(now Time, lacks string, present time.Duration) {
	r.State, r.WaitingFor, r.Waited, r.Late, r.SparedAt = Waiting, lacks, true, false, 0
	r.Attend(now, present)
}

// Attend says how far ahead the waiter's long poll is held; zero: it hung up.
func (r *Row) Attend(now Time, present time.Duration) {
	r.PresentUntil = 0
	if present > 0 {
		r.PresentUntil = now.Add(present)
	}
}

// Regen moves a placing to a new generation, because the answer under the old one is unknown.
func (r *Row) Regen(now Time, old, gen int64) bool {
	if r.State != Placing || r.Gen != old {
		return false
	}
	r.Gen, r.PlacingAt = gen, now
	return true
}

// Settle turns a placing into an admission, only if it still is at that generation.
func (r *Row) Settle(now Time, gen int64, host string, reservedUntil Time) bool {
	if r.State != Placing || r.Gen != gen {
		return false
	}
	r.State, r.Epoch, r.Host = Admitted, gen, host
	r.AdmittedAt, r.ReservedUntil, r.RunningAt = now, reservedUntil, 0
	r.HostlessAt, r.HostlessSince, r.StandAt = 0, 0, ""
	return true
}

// NoRoom gives the slot of a placing back. A waiter returns to its place; a newcomer
// joins the line only while that is not full; refuse mode leaves nothing: keep is false.
func (r *Row) NoRoom(now Time, hostless, lineFull bool, present time.Duration) (keep bool) {
	r.FreedAt = now
	if r.Mode != Queue || (lineFull && !r.Waited) {
		return false
	}
	r.Wait(now, ForHost, present)
	if hostless {
		if !r.hostless(now) {
			r.HostlessSince = now
		}
		r.HostlessAt = now
	}
	if r.TooOld(now) {
		r.GiveUp(now)
	}
	return true
}

// GiveUp ends a waiter that is out of patience.
func (r *Row) GiveUp(now Time) { r.end(now, TimedOut, "waited max_queue_age") }

// Move makes an unbooted admission a placing again, elsewhere. Its former wait was
// answered, so its patience starts anew; its place stays. What no host holds cannot move.
func (r *Row) Move(now Time, epoch, gen int64) bool {
	if r.State != Admitted || r.Epoch != epoch || r.Host == "" {
		return false
	}
	r.Host, r.ReservedUntil = "", 0
	if r.Mode == Queue {
		r.QueuedAt = now
	}
	r.Grant(now, gen)
	return true
}

// Stand notes where memory is set aside for a waiter; nowhere for "".
func (r *Row) Stand(at string) bool {
	if r.State != Waiting {
		return false
	}
	r.StandAt = at
	return true
}

// Renew lengthens what the host's reservation is known to last. One that may be started
// anew can have ended, and be reserved again, before that is known here.
func (r *Row) Renew(epoch int64, until Time) bool {
	if (r.State != Admitted && (r.State != Running || !r.HoldOnExit)) || r.Host == "" || r.Epoch != epoch {
		return false
	}
	r.ReservedUntil = max(r.ReservedUntil, until)
	return true
}

// Track notes the boot.
func (r *Row) Track(now Time, epoch int64) bool {
	if r.Epoch != epoch || (r.State != Admitted && r.State != Releasing) {
		return r.State == Running && r.Epoch == epoch
	}
	if r.RunningAt == 0 {
		r.RunningAt = now
	}
	if r.State == Admitted {
		r.State = Running
	}
	return true
}

// Reopen notes that the sandbox ended and that its host reserves its memory for the next
// start under the same epoch.
func (r *Row) Reopen(epoch int64, until Time) bool {
	if r.State != Running || !r.HoldOnExit || r.Epoch != epoch {
		return r.State == Admitted && r.Epoch == epoch
	}
	r.State, r.RunningAt, r.ReservedUntil = Admitted, 0, max(r.ReservedUntil, until)
	return true
}

// Leave begins the end that the caller asked for. What no host holds is free at once, and
// what was lost is not wanted back; the rest is releasing until its host says that it is gone.
func (r *Row) Leave(now Time) {
	switch {
	case r.State == Waiting || r.State == Placing || r.State == Lost || r.live():
		r.end(now, Released, releasedByCaller)
	case r.State == Admitted || r.State == Running:
		r.State = Releasing
	}
}

const releasedByCaller = "released by the caller"

// lose ends what was on a host that is dead. What its caller had given back is not lost, or
// it would be back when the host is.
func (r *Row) lose(now Time, why string) {
	if r.State == Releasing {
		r.end(now, Released, releasedByCaller)
		return
	}
	r.end(now, Lost, why)
}

// Return brings a lost admission back whose host was not dead: it runs there, and nobody
// was admitted under its key meanwhile. Its slot is taken, though the pool be full.
func (r *Row) Return(now Time, epoch int64, host string) bool {
	if r.State != Lost || r.Epoch != epoch {
		return r.State == Running && r.Epoch == epoch && r.Host == host
	}
	r.State, r.Host, r.Reason, r.EndedAt = Running, host, "", 0
	if r.RunningAt == 0 {
		r.RunningAt = now
	}
	return true
}

// End writes the end that a host reported, or acknowledged. Settled rows at that epoch
// take it; a placing at that generation is not settled yet, so the host must say it again.
func (r *Row) End(now Time, epoch int64, to State, reason string) (written, again bool) {
	if r.State == Placing && r.Gen == epoch {
		return false, true
	}
	if !r.State.OnHost() || r.Epoch != epoch || r.Audience != "" {
		return false, false
	}
	if r.State == Releasing {
		to = Released
	}
	r.end(now, to, reason)
	return true, false
}

func (r *Row) end(now Time, to State, reason string) {
	if r.State.HoldsSlot() {
		r.FreedAt = now
	}
	r.State, r.Reason, r.EndedAt = to, reason, now
	r.Host, r.Audience, r.Place, r.WaitingFor, r.PresentUntil, r.Late, r.SparedAt = "", "", 0, "", 0, false, 0
	r.HostlessSince, r.StandAt = 0, ""
}
