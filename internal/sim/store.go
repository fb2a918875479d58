package sim

import (
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// store is the model that real stores must equal, behind a connection that fails. Its
// clock is nobody else's, and may jump.
type store struct {
	fleet  *Fleet
	model  *pool.Model
	broken int           // percent of transitions whose outcome is unknown
	ahead  time.Duration // of its wall clock
	loads  loads
}

const poolName = "p"

// The limits. Small, so that slots and quotas are contended beside memory.
const (
	maxWaiting = 30
	quotaOf    = 14
)

func (s *store) configure(limit int64) {
	s.settle(pool.Settings{
		Pools:        map[string]pool.Limits{poolName: {Cap: limit, MaxWaiting: maxWaiting}},
		DefaultQuota: quotaOf,
	})
}

// settle puts limits in force, which the onlooker judges by from then on.
func (s *store) settle(limits pool.Settings) {
	s.loads.limits = limits
	s.model.Configure(limits)
}

// time is the store's clock: it may be set, and the store makes it never step back.
func (s *store) time() pool.Time {
	return pool.Time((1_700_000_000*time.Second + s.fleet.now + s.ahead) / time.Millisecond)
}

// transact carries out one transition at one instant; then comes the answer, or the news
// that there is none, which says nothing about whether it was persisted.
func (s *store) transact(what write, do func(), then func(failed bool)) {
	f := s.fleet
	f.after(f.between(100*time.Microsecond, 2*time.Millisecond), func() {
		s.model.Advance(s.time())
		failed := f.chance(s.broken)
		persisted := !failed || f.chance(50)
		if fails, persists := f.orders.fails(what); fails {
			failed, persisted = true, persists
		}
		if persisted {
			do()
		}
		f.after(f.between(50*time.Microsecond, time.Millisecond), func() { then(failed) })
	})
}

// touched takes note of a row that a transition may have changed, and checks it.
func (s *store) touched(id string) {
	row, ok := s.model.ByID(id)
	if !ok {
		s.loads.forget(id)
		return
	}
	s.fleet.checkRow(s.loads.seen[id], row)
	s.loads.note(row)
}

// loads counts, from the outside, who holds what: the onlooker's own sums.
type loads struct {
	limits pool.Settings
	busy   map[string]int64    // pool -> slots held
	use    map[string]int64    // tenant -> slots held
	seen   map[string]pool.Row // id -> as last seen

	waiting map[string]bool // ids of those in any line
	freed   map[string]bool // ids of those that gave a slot back, lately or not
}

func newLoads() loads {
	return loads{
		busy: map[string]int64{}, use: map[string]int64{}, seen: map[string]pool.Row{},
		waiting: map[string]bool{}, freed: map[string]bool{},
	}
}

// free is what nobody holds of a pool, by the cap in force.
func (l *loads) free(name string) int64 {
	if most := l.limits.Pools[name].Cap; most != pool.Unlimited {
		return most - l.busy[name]
	}
	return 1 << 40
}

// full says whether a tenant holds all that it may.
func (l *loads) full(tenant string, but int64) bool {
	quota, ok := l.limits.Quotas[tenant]
	if !ok {
		quota = l.limits.DefaultQuota
	}
	return quota != pool.Unlimited && l.use[tenant]-but >= quota
}

func (l *loads) note(r pool.Row) {
	l.forget(r.ID)
	if holds(r.State) {
		l.busy[r.Pool]++
		l.use[r.Tenant]++
	}
	if r.State == pool.Waiting {
		l.waiting[r.ID] = true
	}
	if r.FreedAt != 0 {
		l.freed[r.ID] = true
	}
	l.seen[r.ID] = r
}

// freedLately counts the slots of a pool that were given back within the grace of absent waiters.
func (l *loads) freedLately(name string, now pool.Time) (n int64) {
	for id := range l.freed {
		switch w := l.seen[id]; {
		case now.Since(w.FreedAt) >= pool.Grace:
			delete(l.freed, id)
		case w.Pool == name:
			n++
		}
	}
	return n
}

func (l *loads) forget(id string) {
	if old, ok := l.seen[id]; ok && holds(old.State) {
		l.busy[old.Pool]--
		l.use[old.Tenant]--
	}
	delete(l.seen, id)
	delete(l.waiting, id)
	delete(l.freed, id)
}
