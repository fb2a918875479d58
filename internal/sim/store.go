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
	away   bool          // nothing is persisted, and nothing answered
	ahead  time.Duration // of its wall clock
	loads  loads
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
		if s.away {
			failed, persisted = true, false
		}
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
	row.ID = id
	s.fleet.checkSlot(row)
	if !ok {
		s.loads.forget(id)
		return
	}
	s.fleet.checkRow(s.loads.seen[id], row)
	if row.State != pool.Waiting && row.State != pool.Placing {
		delete(s.fleet.book.vain, id)
	}
	s.loads.note(row)
}
