package sim

import (
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
	case pool.PoolFull, pool.QueueFull:
		f.checkFull(held, got)
	case pool.Queued:
		if got.Row.WaitingFor == pool.ForSlot {
			f.checkFull(held, got)
		}
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
	f.store.loads.note(row)
	for id := range f.store.loads.waiting { // a grant marks the absent waiters that it goes by
		f.store.loads.seen[id], _ = f.model().ByID(id)
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
	l := &f.store.loads
	if l.free(row.Pool) <= 0 {
		f.violate(slots, "%s got a slot while %d of %d were taken", row.ID, l.busy[row.Pool], l.limits.Pools[row.Pool].Cap)
	}
	if l.full(row.Tenant, 0) {
		f.violate(slots, "tenant %s got a slot more than its quota, with %d", row.Tenant, l.use[row.Tenant])
	}
	ahead, same := f.ahead(held, row)
	if same != "" {
		f.violate(order, "%s got a slot before %s of the same kind, which is there and just found no host", row.ID, same)
	}
	if free := l.free(row.Pool); free <= ahead {
		f.violate(order, "%s got one of %d free slots while %d waited before it", row.ID, free, ahead)
	}
}

// checkFull proves that a claim which is told to wait for a slot, or that there is none, was
// not kept from a free one.
func (f *Fleet) checkFull(held pool.Row, got pool.Claimed) {
	l, row := &f.store.loads, got.Row
	if l.full(row.Tenant, 0) {
		return
	}
	ahead, same := f.ahead(held, row)
	if free := l.free(row.Pool); free > ahead && same == "" {
		f.violate(order, "%s was told %s while %d slots were free and %d waited before it", row.ID, got.Verdict, free, ahead)
	}
}

// ahead counts, by the onlooker's own reading of the rule, the slots that are not for a claim:
// one for each waiter before it that is there, one for each other kind that just found no host,
// and those freed so lately that waiters who hung up may still come for them. It also names a
// waiter of the same kind that just found no host.
func (f *Fleet) ahead(before, row pool.Row) (n int64, same string) {
	now, l := f.model().Now(), &f.store.loads
	var absent int64
	kinds := map[string]bool{}
	for id := range l.waiting {
		w := l.seen[id]
		if w.Pool != row.Pool || w.ID == row.ID || now.Since(w.QueuedAt) >= w.MaxQueueAge || l.full(w.Tenant, 0) {
			continue
		}
		if before.State == pool.Waiting && w.Place > before.Place {
			continue
		}
		here := w.PresentUntil != 0 && w.PresentUntil >= now
		lately := w.HostlessAt != 0 && now.Since(w.HostlessAt) < pool.HostlessFor
		switch {
		case here && !lately:
			n++
		case here && w.Kind() == row.Kind():
			same = w.ID
		case here:
			kinds[w.Kind()] = true
		case !lately && !w.Late && (w.SparedAt == 0 || now.Since(w.SparedAt) < pool.Grace):
			absent++
		}
	}
	return n + int64(len(kinds)) + min(absent, l.freedLately(row.Pool, now), max(l.free(row.Pool), 0)), same
}
