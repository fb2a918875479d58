package sim

import (
	"cmp"

	"github.com/plimsoll-project/plimsoll/pool"
)

// claim carries a claim out and proves what came of it by the onlooker's own sums.
func (f *Fleet) claim(c pool.Claim) pool.Claimed {
	held := f.store.loads.seen[c.ID]
	got := f.model().Claim(c)
	switch got.Verdict {
	case pool.Granted:
		f.fact(factGrant, c.ID, got.Row.Gen)
		f.checkGrant(held, got.Row)
		f.granted(held, got.Row)
		f.unstall(c.ID)
	case pool.BusyPlacing:
		if age := f.model().Now().Since(held.PlacingAt); age >= pool.PlacingFor {
			f.violate(whole, "%s is told that another call places it, since %v", c.ID, age)
		}
	case pool.PoolFull, pool.QueueFull, pool.OverQuota, pool.Queued:
		f.checkRefusal(held, got)
	}
	return got
}

// granted notes the generation under which a row has a slot: every grant has one of its own,
// higher than all before, or two replicas could place the same one.
func (f *Fleet) granted(before, row pool.Row) {
	if last := f.book.granted[row.ID]; row.Gen <= last {
		f.violate(slots, "%s was granted a slot under generation %d, after one under %d", row.ID, row.Gen, last)
	}
	f.book.granted[row.ID] = row.Gen
	if before.Place != 0 && !before.State.Ended() && row.Place != before.Place {
		f.violate(order, "%s had place %d and now has %d", row.ID, before.Place, row.Place)
	}
	if row.Audience != "" {
		f.book.slots[row.ID] = f.newSlot(&row)
		f.checkTicket(f.book.slots[row.ID], &row)
	}
	f.store.loads.note(row)
	for id := range f.store.loads.waiting { // a grant marks the absent waiters that it goes by
		now, _ := f.model().ByID(id)
		f.store.loads.seen[id], f.store.loads.waiting[id] = now, &now
	}
}

// checkGrant proves that a slot was there for a claim that got one.
func (f *Fleet) checkGrant(held, row pool.Row) {
	if holds(held.State) {
		if age := f.model().Now().Since(held.PlacingAt); held.State != pool.Placing || age < pool.PlacingFor {
			f.violate(slots, "%s was granted anew while it was %s, since %v", row.ID, held.State, age)
		}
		return // a placing that was taken over: its slot goes on
	}
	l, h := &f.store.loads, f.hall(row.Pool)
	f.checkCeiling()
	if !h.fits(holderOf(&row)) {
		f.violate(slots, "%s of %s, priority %d, got a slot while %d of %d were held, by shares %v of %v", row.ID, row.Consumer, row.Priority, h.total, h.most, h.held, h.shares)
		return
	}
	if quota := l.caps.quota(row.Tenant); l.use[row.Tenant] >= quota {
		f.violate(slots, "tenant %s got a slot more than its quota of %d, with %d", row.Tenant, quota, l.use[row.Tenant])
		return
	}
	o := f.outlook(held, row)
	switch {
	case o.same != "":
		f.violate(order, "%s got a slot before %s of the same kind, which is there and just found no host", row.ID, o.same)
	case o.quota:
		f.violate(order, "%s got a slot of its tenant's quota before %d of the same tenant, which wait before it", row.ID, o.mates)
	case !o.fits:
		f.violate(order, "%s got one of %d free slots while %d could be taken before it", row.ID, h.most-h.total, o.taken)
	}
}

// checkRefusal proves that a claim which is told to wait, or that there is no slot, was not
// kept from one, and that it is told the reason.
func (f *Fleet) checkRefusal(held pool.Row, got pool.Claimed) {
	l, row := &f.store.loads, got.Row
	o := f.outlook(held, row)
	why := o.lacks()
	if why == "" {
		f.violate(order, "%s was told %s while %d slots were free and %d could be taken before it", row.ID, got.Verdict, l.caps.most(row.Pool, f.model().Now())-l.busy[row.Pool], o.taken)
		return
	}
	over := l.use[row.Tenant] >= l.caps.quota(row.Tenant)
	inLine, places := l.inLine(&row, f.model().Now()), l.caps.settings.Pools[row.Pool].MaxWaiting
	switch {
	case got.Verdict == pool.Queued && row.WaitingFor != why:
		f.violate(order, "%s is told that it waits for a %s, and lacks a %s", row.ID, row.WaitingFor, why)
	case got.Verdict == pool.OverQuota && !over:
		f.violate(slots, "%s is told that its tenant is over its quota, with %d of %d", row.ID, l.use[row.Tenant], l.caps.quota(row.Tenant))
	case got.Verdict == pool.QueueFull && held.State == pool.Waiting:
		f.violate(order, "%s has place %d, and is told that the line is full", row.ID, held.Place)
	case got.Verdict == pool.QueueFull && inLine < places:
		f.violate(order, "%s found the line full, with %d of %d places taken", row.ID, inLine, places)
	case got.Verdict == pool.Queued && held.Place == 0 && inLine >= places:
		f.violate(order, "%s was let into a line of %d, with %d places taken", row.ID, places, inLine)
	}
}

// outlook is what an onlooker expects of a claim.
type outlook struct {
	fits  bool   // a slot is left for it, once those before it have taken theirs
	quota bool   // its tenant can hold no more, once its other waiters before it have theirs
	same  string // one of the same kind before it, which is there and just found no host
	taken int    // slots that those before it take
	mates int64  // those of them that are of the same tenant
}

func (o *outlook) lacks() string {
	switch {
	case o.quota:
		return pool.ForQuota
	case !o.fits:
		return pool.ForSlot
	case o.same != "":
		return pool.ForHost
	}
	return ""
}

// outlook lets each waiter before a claim have its turn, in the order of the places: whoever
// is there and could take a slot takes it; of those that just found no host, one of each kind;
// and of those that hung up as many as slots were freed lately.
func (f *Fleet) outlook(before, row pool.Row) (o outlook) {
	l, now, h := &f.store.loads, f.model().Now(), f.hall(row.Pool)
	spare := min(l.freedLately(row.Pool, now), max(h.most-h.total, 0))
	use := map[string]int64{} // tenant -> taken by those before
	kinds := map[string]bool{}
	for _, w := range l.line(row.Pool, now) {
		if w.ID == row.ID || (before.State == pool.Waiting && w.Place > before.Place) {
			continue
		}
		who := holderOf(w)
		if l.use[w.Tenant]+use[w.Tenant] >= l.caps.quota(w.Tenant) || !h.fits(who) {
			continue // it can take none, whether it is there or not
		}
		here := w.PresentUntil != 0 && w.PresentUntil >= now
		lately := w.HostlessAt != 0 && now.Since(w.HostlessAt) < pool.HostlessFor
		gone := w.Late || (w.SparedAt != 0 && now.Since(w.SparedAt) >= pool.Grace)
		switch {
		case here && lately && w.Kind() == row.Kind():
			o.same = cmp.Or(o.same, w.ID)
			continue
		case here && lately && kinds[w.Kind()]:
			continue
		case here && lately:
			kinds[w.Kind()] = true
		case here:
		case !lately && !gone && spare > 0:
			spare--
		default:
			continue
		}
		h.enter(who)
		use[w.Tenant]++
		o.taken++
	}
	o.mates = use[row.Tenant]
	o.fits, o.quota = h.fits(holderOf(&row)), l.use[row.Tenant]+o.mates >= l.caps.quota(row.Tenant)
	return o
}
