package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// pulse writes that this replica hears, and whom it heard since it last did.
func (r *replica) pulse() {
	heard := sortedKeys(r.fresh)
	clear(r.fresh)
	r.transact(writePulse, func() { r.fleet.pulse(heard) }, func(failed bool) {
		if failed {
			for _, id := range heard {
				r.fresh[id] = true
			}
		}
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// pulse carries one out, and notes it.
func (f *Fleet) pulse(heard []string) {
	now := f.model().Now()
	f.book.pulse.beat(now, f.gap())
	for _, id := range heard {
		f.lease(id)
	}
	f.model().Pulse()
	if f.deaf() {
		f.book.deaf = now
	}
}

// deaf says that more than half of the hosts are silent: then it is the hearing that failed.
// Those that have left for an hour, with nothing on them, say nothing of the others.
func (f *Fleet) deaf() bool {
	now, silent, of := f.model().Now(), 0, 0
	couldHear := f.heardFor()
	for id, at := range f.book.leases {
		if min(now.Since(at), couldHear) >= time.Hour && !f.holdsOn(id) {
			continue
		}
		of++
		if now.Since(at) >= silentAfter {
			silent++
		}
	}
	return silent > of-silent
}

func (f *Fleet) holdsOn(id string) bool {
	for _, row := range f.store.loads.seen {
		if row.Host == id && onHost(row.State) {
			return true
		}
	}
	return false
}

// lease renews a host's, unless it was renewed just before.
func (f *Fleet) lease(id string) {
	if now := f.model().Now(); now.Since(f.book.leases[id]) >= 10*time.Second {
		f.book.leases[id] = now
	}
	f.model().HearHost(id)
}

// deadHosts are, by an onlooker's reading, the hosts that are dead: not heard for as long as a
// lease lasts, while somebody could hear, and at least half of all were heard, all that time,
// as far as the pulse was written.
func (f *Fleet) deadHosts() map[string]bool {
	now, dead := f.model().Now(), map[string]bool{}
	if f.heardFor() < lease || f.deaf() || now.Since(f.book.deaf) < lease {
		return nil
	}
	for id, at := range f.book.leases {
		if now.Since(at) >= lease {
			dead[id] = true
		}
	}
	return dead
}

// lease is how long one lasts.
const lease = 5 * time.Minute

// sweepStore tidies up, and proves that it ended what was over, and nothing else.
func (f *Fleet) sweepStore() {
	dead := f.deadHosts()
	changed := f.model().Sweep()
	for i := range changed {
		f.checkSwept(f.store.loads.seen[changed[i].ID], &changed[i], dead)
		f.store.touched(changed[i].ID)
		if changed[i].State == pool.Lost {
			f.perhapsLeave(changed[i].ID, 30, time.Minute)
		}
	}
	f.checkOverdue()
	for _, id := range sortedKeys(f.store.loads.seen) {
		if row := f.store.loads.seen[id]; onHost(row.State) && dead[row.Host] && !row.Stateful {
			f.violate(ends, "%s/%d is %s on %s, which is dead", id, row.Epoch, row.State, row.Host)
		}
	}
}

func (f *Fleet) checkSwept(old pool.Row, row *pool.Row, dead map[string]bool) {
	if !onHost(old.State) || old.Audience != "" {
		return
	}
	switch {
	case row.State == pool.Released && old.State == pool.Releasing && dead[old.Host] && !old.Stateful:
	case row.State != pool.Lost:
		f.violate(whole, "the sweep made %s/%d, %s on %s, %s", row.ID, old.Epoch, old.State, old.Host, row.State)
	case old.Stateful:
		f.violate(whole, "%s/%d is lost with %s, and is stateful", row.ID, old.Epoch, old.Host)
	case !dead[old.Host]:
		f.violate(whole, "%s/%d is lost, and %s, heard %v ago, is not dead: somebody can hear for %v", row.ID, old.Epoch, old.Host,
			f.model().Now().Since(f.book.leases[old.Host]), f.heardFor())
	}
	f.book.excused[host.Ref{ID: row.ID, Epoch: old.Epoch}] = true
}

// comeBack writes that what was lost runs, and proves that nobody was admitted in its place
// and that its caller still wants it.
func (f *Fleet) comeBack(ref host.Ref, at string) {
	old := f.store.loads.seen[ref.ID]
	if !f.model().Return(ref.ID, ref.Epoch, at) || old.State == pool.Running {
		return
	}
	switch {
	case old.State != pool.Lost || old.Epoch != ref.Epoch:
		f.violate(boots, "%s/%d on %s came back, and it was %s/%d", ref.ID, ref.Epoch, at, old.State, old.Epoch)
	case f.book.left[ref.ID] == ref.Epoch:
		f.violate(whole, "%s/%d on %s came back, and its caller had given it back", ref.ID, ref.Epoch, at)
	}
	f.tell("%s/%d on %s is found running again", ref.ID, ref.Epoch, at)
	delete(f.book.excused, ref)
	row, _ := f.model().ByID(ref.ID)
	f.store.loads.note(row)
}

// forsaken says whether the store counts on no placement like this any more, or its caller
// has given it back.
func (f *Fleet) forsaken(ref host.Ref) bool {
	row := f.store.loads.seen[ref.ID]
	return f.rough && (row.Epoch != ref.Epoch || (row.State != pool.Admitted && row.State != pool.Running))
}
