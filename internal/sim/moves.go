package sim

import (
	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// move carries a move out; one that nobody acknowledged may leave a sandbox behind the silence.
func (f *Fleet) move(m *pool.Model, e admission.Effect) (pool.Row, bool) {
	before, _ := m.ByID(e.ID)
	row, ok := m.Move(e.ID, e.Gen, e.Acked)
	if !ok {
		return row, ok
	}
	if before.State != pool.Admitted || before.Epoch != e.Gen {
		f.violate(boots, "%s moved from epoch %d, and was %s under %d", e.ID, e.Gen, before.State, before.Epoch)
		return row, ok
	}
	f.granted(before, row)
	if e.Acked {
		f.checkLetGo(before)
	} else {
		f.checkGivenUp(m, before)
	}
	return row, ok
}

// checkLetGo proves that a host which acknowledged a release has nothing of it.
func (f *Fleet) checkLetGo(row pool.Row) {
	a := f.byID[row.Host]
	if c := a.witness.running(row.ID); c != nil && c.epoch == row.Epoch {
		f.violate(boots, "%s/%d was given up on %s, where it runs", row.ID, row.Epoch, a.id)
	}
	f.checkLapsed(row)
}

// checkGivenUp proves that what is given up behind a silence is stateless, and can only be
// running there, or have run: its reservation must have lapsed.
func (f *Fleet) checkGivenUp(m *pool.Model, row pool.Row) {
	f.book.excused[host.Ref{ID: row.ID, Epoch: row.Epoch}] = true
	switch {
	case row.Stateful:
		f.violate(boots, "%s/%d was given up behind the silence of %s, and is stateful", row.ID, row.Epoch, row.Host)
	case m.Now() <= row.ReservedUntil:
		f.violate(boots, "%s/%d was given up on %s, which had not let go and may hold it for %v", row.ID, row.Epoch, row.Host, row.ReservedUntil.Since(m.Now()))
	case !f.jumped && !f.keptThere(row):
		f.checkLapsed(row)
	}
}

// keptThere says whether a host keeps the place of a sandbox that ran and ended behind the
// silence: as much as a running one, it is superseded until the host is heard.
func (f *Fleet) keptThere(row pool.Row) bool {
	p := f.byID[row.Host].witness.promised(row.ID)
	return p != nil && p.again
}

// checkLapsed proves, by the host's own clock, that no reservation stands under a placement.
func (f *Fleet) checkLapsed(row pool.Row) {
	a := f.byID[row.Host]
	if p := a.witness.promised(row.ID); p != nil && p.gen == row.Epoch && p.until > a.clock() {
		f.violate(boots, "%s/%d was given up on %s, where its reservation stands for %v", row.ID, row.Epoch, a.id, p.until-a.clock())
	}
}

// departed judges an end that a departure writes: its host let go, or is silent and the
// reservation there must have lapsed.
func (f *Fleet) departed(m *pool.Model, e admission.Effect, acked bool) {
	row, ok := m.ByID(e.ID)
	switch {
	case !ok || row.State != pool.Releasing || row.Epoch != e.Gen:
	case acked:
		f.checkLetGo(row)
	default:
		f.checkGivenUp(m, row)
	}
}
