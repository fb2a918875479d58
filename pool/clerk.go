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
		return k.answer(v, old)
	}
	if old != nil && !old.State.Ended() {
		return k.reclaim(old, c)
	}
	limits, ok := k.limits(c.Pool)
	if !ok {
		return Claimed{Verdict: NoSuchPool}
	}
	r := NewRow(old, c, k.books.Now())
	return k.decide(&r, c, limits)
}

// answer tells of a row as it is. Who is out of patience is told how the pool stands, as
// everybody is who is told no.
func (k Clerk) answer(v Verdict, r *Row) Claimed {
	if r == nil {
		return Claimed{Verdict: v}
	}
	c := Claimed{Verdict: v, Row: *r}
	if limits, ok := k.limits(r.Pool); ok && v == PatienceOut {
		c.Standing = k.standing(r, &limits)
	}
	return c
}

// reclaim tries again for a waiter, or takes over a placing whose replica was lost.
func (k Clerk) reclaim(r *Row, c Claim) Claimed {
	now := k.books.Now()
	if r.TooOld(now) {
		r.GiveUp(now)
		k.books.Put(r)
		return k.answer(PatienceOut, r)
	}
	limits, _ := k.limits(r.Pool)
	if r.State == Placing {
		k.grant(r, &limits)
		k.books.Put(r)
		return k.answer(Granted, r)
	}
	return k.decide(r, c, limits)
}

// decide applies the rule to a row that holds no slot.
func (k Clerk) decide(r *Row, c Claim, l Limits) Claimed {
	s := k.standing(r, &l)
	v := Decide(s, r.Mode, r.Waited)
	if v != Granted && v != Queued {
		return Claimed{Verdict: v, Row: *r, Standing: s}
	}
	if r.Mode == Queue && r.Place == 0 {
		r.Place = k.books.NextPlace(r.Pool)
	}
	would := Verdict("")
	if v == Granted {
		if would = s.Would(r.Mode, r.Waited); would == "" { // else nobody's turn was taken
			k.passOver(r, &l, s.FreedLately)
		}
		k.grant(r, &l)
	} else {
		r.Wait(k.books.Now(), s.Lacks(), c.Present)
	}
	k.books.Put(r)
	return Claimed{Verdict: v, Row: *r, Standing: s, Would: would}
}

// grant gives a row a slot; where no host of ours has to say yes as well, that is all.
func (k Clerk) grant(r *Row, l *Limits) {
	r.Grant(k.books.Now(), k.books.Next())
	if l.Audience != "" {
		r.Admit(k.books.Now(), l)
	}
}

// limits are a pool's in force at this moment: what an operator set for a while wins.
func (k Clerk) limits(name string) (Limits, bool) {
	l, ok := k.books.Limits(name)
	if o := k.books.Override(name); o.InForce(k.books.Now()) {
		l.Cap = o.Cap
	}
	if k.books.Orders().ShadowsPool(name) {
		l.Enforcement = Shadow
	}
	return l, ok
}

func (k Clerk) quotaShadow() bool {
	return k.books.QuotaEnforcement() == Shadow || k.books.Orders().ShadowsQuotas()
}

// passOver notes which absent waiters this grant goes by: from now on they count only
// while they are there. Those for whom a slot was left have Grace, once, to come for it;
// a pool that frees slots all the time would otherwise keep one for a dead waiter for ever.
func (k Clerk) passOver(r *Row, l *Limits, freedLately int64) {
	now, u := k.books.Now(), k.lineUp(r, l, freedLately)
	for w := range k.ahead(r) {
		switch u.meet(w) {
		case passedBy:
			w.Late = true
		case spared:
			if w.SparedAt == 0 {
				w.SparedAt = now
			}
		case noTurn, onTime, hostless, sameKindFirst:
			continue
		}
		k.books.Mark(w)
	}
}

// standing counts what a row without a slot, or about to give it back, sees.
func (k Clerk) standing(r *Row, l *Limits) Standing {
	now, t := k.books.Now(), k.books.Tally(r.Pool)
	if r.State.HoldsSlot() {
		t.Busy--
	}
	if r.inLine(now) {
		t.InLine--
	}
	s := Standing{
		Cap: l.Cap, MaxWaiting: l.MaxWaiting, Busy: t.Busy, FreedLately: t.FreedLately, InLine: t.InLine,
		QuotaLimit: k.books.Quota(r.Tenant), Position: 1,
		Shadow: l.Enforcement == Shadow, QuotaShadow: k.quotaShadow(),
	}
	if s.QuotaLimit != Unlimited {
		s.QuotaUse = k.use(r.Tenant, r)
	}
	u := k.lineUp(r, l, t.FreedLately)
	s.ShareFull = u.slots.full(r.Holder())
	s.Share, s.SetAside = u.slots.standing(r.Holder())
	if o := k.books.Override(r.Pool); o.InForce(now) {
		s.Override = o
	}
	for w := range k.ahead(r) {
		s.Position++
		s.count(u.meet(w))
	}
	s.QuotaAhead, s.Left = u.tenants[r.Tenant], u.slots.open(r.Holder())
	s.Short, s.ShareShort = u.short()
	return s
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

// use counts what a tenant holds besides r, which has not got its slot yet or is giving it back.
func (k Clerk) use(tenant string, r *Row) int64 {
	n := k.books.Use(tenant)
	if r.Tenant == tenant && r.State.HoldsSlot() {
		n--
	}
	return n
}
