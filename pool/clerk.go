package pool

import "iter"

// Clerk makes the transitions that need more than their own row: each reads and writes
// the books of one transaction. Model and every real store run the same Clerk, over books
// of their own, so that no rule is written twice.
type Clerk struct{ books Books }

// NewClerk returns a clerk who writes these books.
func NewClerk(b Books) Clerk { return Clerk{b} }

// Claim finds or makes the row of a key and gives it a slot, a place or a no.
func (k Clerk) Claim(c Claim) Claimed {
	if !k.books.Loaded() {
		return Claimed{Verdict: NotLoaded}
	}
	old := k.books.Find(c.Consumer, c.Key)
	if v, ok := Before(old, c, k.books.Now()); ok {
		return answer(v, old)
	}
	if old != nil && !old.State.Ended() {
		return k.reclaim(old, c)
	}
	limits, ok := k.books.Limits(c.Pool)
	if !ok {
		return Claimed{Verdict: NoSuchPool}
	}
	r := NewRow(old, c, k.books.Now())
	return k.decide(&r, c, k.standing(&r, limits))
}

func answer(v Verdict, r *Row) Claimed {
	if r == nil {
		return Claimed{Verdict: v}
	}
	return Claimed{Verdict: v, Row: *r}
}

// reclaim tries again for a waiter, or takes over a placing whose replica was lost.
func (k Clerk) reclaim(r *Row, c Claim) Claimed {
	now := k.books.Now()
	if r.TooOld(now) {
		r.GiveUp(now)
		k.books.Put(r)
		return answer(PatienceOut, r)
	}
	if r.State == Placing {
		r.Grant(now, k.books.Next())
		k.books.Put(r)
		return answer(Granted, r)
	}
	limits, _ := k.books.Limits(r.Pool)
	return k.decide(r, c, k.standing(r, limits))
}

// decide applies the rule to a row that holds no slot.
func (k Clerk) decide(r *Row, c Claim, s Standing) Claimed {
	v := Decide(s, r.Mode, r.Waited)
	if v != Granted && v != Queued {
		return Claimed{Verdict: v, Row: *r, Standing: s}
	}
	if r.Mode == Queue && r.Place == 0 {
		r.Place = k.books.NextPlace(r.Pool)
	}
	if v == Granted {
		k.passOver(r, s)
		r.Grant(k.books.Now(), k.books.Next())
	} else {
		r.Wait(k.books.Now(), s.Lacks(), c.Present)
	}
	k.books.Put(r)
	return Claimed{Verdict: v, Row: *r, Standing: s}
}

// passOver notes which absent waiters this grant goes by: from now on they count only
// while they are there. Those for whom a slot was left have Grace, once, to come for it;
// a pool that frees slots all the time would otherwise keep one for a dead waiter for ever.
func (k Clerk) passOver(r *Row, s Standing) {
	now, spared := k.books.Now(), s.graceSlots()
	for w := range k.ahead(r) {
		if !k.away(w, r) {
			continue
		}
		switch {
		case w.graceSpent(now) || spared == 0:
			w.Late = true
		default:
			spared--
			if w.SparedAt == 0 {
				w.SparedAt = now
			}
		}
		k.books.Mark(w)
	}
}

// standing counts what a row without a slot, or about to give it back, sees.
func (k Clerk) standing(r *Row, l Limits) Standing {
	now, t := k.books.Now(), k.books.Tally(r.Pool)
	if r.State.HoldsSlot() {
		t.Busy--
	}
	if r.inLine(now) {
		t.InLine--
	}
	s := Standing{
		Limits: l, Busy: t.Busy, FreedLately: t.FreedLately, InLine: t.InLine,
		QuotaLimit: k.books.Quota(r.Tenant), Position: 1,
	}
	if s.QuotaLimit != Unlimited {
		s.QuotaUse = k.use(r.Tenant, r)
	}
	k.look(&s, r)
	return s
}

// look sorts the waiters ahead of r by the claim they have on a free slot.
func (k Clerk) look(s *Standing, r *Row) {
	now := k.books.Now()
	kinds := map[string]bool{} // kind -> has a present waiter lately without a host
	for w := range k.ahead(r) {
		s.Position++
		switch {
		case k.away(w, r):
			if !w.graceSpent(now) {
				s.Absent++
			}
		case !w.present(now) || k.atQuota(w.Tenant, r):
		case !w.hostless(now):
			s.Present++
		case w.Kind() == r.Kind():
			s.SameHostless++
		default:
			kinds[w.Kind()] = true
		}
	}
	s.HostlessKind = int64(len(kinds))
}

// ahead goes through the waiters before r in its pool's line, in order; a row without a
// place is behind them all. One out of patience can use no slot and stands in nobody's way.
func (k Clerk) ahead(r *Row) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		now := k.books.Now()
		for _, w := range k.books.Line(r.Pool) {
			if r.Place != 0 && w.Place >= r.Place {
				return
			}
			if w.ID != r.ID && !w.TooOld(now) && !yield(w) {
				return
			}
		}
	}
}

// away says whether a waiter that could use a slot is not there to take it.
func (k Clerk) away(w, r *Row) bool {
	now := k.books.Now()
	return !w.present(now) && !w.Late && !w.hostless(now) && !k.atQuota(w.Tenant, r)
}

// use counts what a tenant holds besides r, which has not got its slot yet or is giving it back.
func (k Clerk) use(tenant string, r *Row) int64 {
	n := k.books.Use(tenant)
	if r.Tenant == tenant && r.State.HoldsSlot() {
		n--
	}
	return n
}

func (k Clerk) atQuota(tenant string, r *Row) bool {
	q := k.books.Quota(tenant)
	return q != Unlimited && k.use(tenant, r) >= q
}
