package pool

import "time"

// Regen gives a placing a new generation; zero when it no longer is at the old one.
func (k Clerk) Regen(id string, gen int64) int64 {
	r := k.placing(id, gen)
	if r == nil {
		return 0
	}
	r.Regen(k.books.Now(), gen, k.books.Next())
	k.books.Put(r)
	return r.Gen
}

// placing returns the row only if it is being placed at that generation.
func (k Clerk) placing(id string, gen int64) *Row {
	if r := k.books.ByID(id); r != nil && r.State == Placing && r.Gen == gen {
		return r
	}
	return nil
}

// Settle writes the placement that a host promised.
func (k Clerk) Settle(id string, gen int64, host string, reservedFor time.Duration) (Row, bool) {
	now := k.books.Now()
	return k.change(id, func(r *Row) bool { return r.Settle(now, gen, host, now.Add(reservedFor)) })
}

// change applies a step to a row and stores it when it took effect; the row is told as it is now.
func (k Clerk) change(id string, step func(*Row) bool) (Row, bool) {
	r := k.books.ByID(id)
	if r == nil {
		return Row{}, false
	}
	was := r.State
	ok := step(r)
	if ok {
		k.put(r, was)
	}
	return *r, ok
}

// put stores a changed row. The end of an admission is a slot that others can have; that of
// a placing which found no host was never more than asked for.
func (k Clerk) put(r *Row, was State) {
	if was.OnHost() && r.State.Ended() {
		k.books.CountFreed(r.Pool)
	}
	k.books.Put(r)
}

// NoRoom takes back a grant for which no host was found: Queued, QueueFull (the line was
// full for a newcomer), PoolFull (refuse mode; the row is gone), or PatienceOut. It is
// NoSuchKey when the placing is no longer at that generation.
func (k Clerk) NoRoom(id string, gen int64, hostless bool, present time.Duration) Claimed {
	r := k.placing(id, gen)
	if r == nil {
		return Claimed{Verdict: NoSuchKey}
	}
	limits, _ := k.limits(r.Pool)
	s := k.standing(r, &limits)
	if !r.NoRoom(k.books.Now(), hostless, s.InLine >= s.MaxWaiting, present) {
		told := Claimed{Verdict: fullFor(r.Mode), Row: *r, Standing: s}
		k.drop(r, "no host was found")
		return told
	}
	k.books.Put(r)
	if r.State == TimedOut {
		return Claimed{Verdict: PatienceOut, Row: *r, Standing: s}
	}
	return Claimed{Verdict: Queued, Row: *r, Standing: s}
}

// drop leaves nothing behind of a placing that was refused, but for the end of a key that was
// placed before: behind a silence it may still run there, and its host must find it superseded.
func (k Clerk) drop(r *Row, reason string) {
	r.end(k.books.Now(), Released, reason)
	if r.Epoch == 0 {
		k.books.Remove(r)
		return
	}
	k.books.Put(r)
}

func fullFor(m Mode) Verdict {
	if m == Queue {
		return QueueFull
	}
	return PoolFull
}

// Attend notes how far ahead a waiter's long poll is held; zero: it hung up.
func (k Clerk) Attend(id string, present time.Duration) bool {
	_, ok := k.change(id, func(r *Row) bool {
		if r.State != Waiting {
			return false
		}
		r.Attend(k.books.Now(), present)
		return true
	})
	return ok
}

// Move places an unbooted admission anew, once its host acknowledged the release or the
// reservation there must have lapsed.
func (k Clerk) Move(id string, epoch int64, acknowledged bool) (Row, bool) {
	now := k.books.Now()
	return k.change(id, func(r *Row) bool {
		if r.State != Admitted || r.Epoch != epoch || r.Host == "" || (!acknowledged && now <= r.ReservedUntil) {
			return false
		}
		return r.Move(now, epoch, k.books.Next())
	})
}

// Renew writes how long the reservation will last, before the host is asked to keep it.
func (k Clerk) Renew(id string, epoch int64, reservedFor time.Duration) (Row, bool) {
	until := k.books.Now().Add(reservedFor)
	return k.change(id, func(r *Row) bool { return r.Renew(epoch, until) })
}

// Stand writes where memory is set aside for a waiter.
func (k Clerk) Stand(id, at string) bool {
	_, ok := k.change(id, func(r *Row) bool { return r.Stand(at) })
	return ok
}

// Reopen writes that a sandbox ended and may be started anew under its admission.
func (k Clerk) Reopen(id string, epoch int64, reservedFor time.Duration) bool {
	until := k.books.Now().Add(reservedFor)
	_, ok := k.change(id, func(r *Row) bool { return r.Reopen(epoch, until) })
	return ok
}

// Return writes that what was lost runs on.
func (k Clerk) Return(id string, epoch int64, host string) bool {
	_, ok := k.change(id, func(r *Row) bool { return r.Return(k.books.Now(), epoch, host) })
	return ok
}

// Track writes that the boot was seen.
func (k Clerk) Track(id string, epoch int64) bool {
	_, ok := k.change(id, func(r *Row) bool { return r.Track(k.books.Now(), epoch) })
	return ok
}

// Leave begins a release of that passage; ok is false when there is no such admission, or when
// it is in another passage by now.
func (k Clerk) Leave(id string, of Passage) (Row, bool) {
	return k.change(id, func(r *Row) bool {
		if of != (Passage{}) && of != r.Passage() {
			return false
		}
		r.Leave(k.books.Now())
		return true
	})
}

// End writes an end; again asks the host to repeat it, because its placing is not settled yet.
func (k Clerk) End(id string, epoch int64, to State, reason string) (written, again bool) {
	k.change(id, func(r *Row) bool {
		written, again = r.End(k.books.Now(), epoch, to, reason)
		return written
	})
	return written, again
}
