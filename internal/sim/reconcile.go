package sim

import (
	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// fullEvery is how many looks apart a host is reconciled even if it does not differ.
const fullEvery = 12

// reconcile compares the store with each host by their sums, and reconciles those that differ
// at two looks, that it has not reconciled in this life or connection, or whose turn it is: rows
// first, then the host's word, so that what it does not hold by then is over.
func (r *replica) reconcile() {
	var held map[string][]pool.Row // host -> rows
	var stored map[string]pool.Holding
	r.transact(writeRows, func() { held, stored = r.fleet.model().OnHosts(), r.fleet.model().Holdings() }, func(failed bool) {
		if failed {
			return
		}
		r.looks++
		for _, a := range r.fleet.agents {
			has := stored[a.id]
			if r.silent(a.id) {
				delete(r.differs, a.id)
				continue
			}
			if r.worthALook(a, &has) {
				r.compare(a, held[a.id])
			}
		}
	})
}

// worthALook judges one host's sums.
func (r *replica) worthALook(a *agent, has *pool.Holding) bool {
	holding := r.last[a.id].verdict.Holding
	before, known := r.differs[a.id]
	r.differs[a.id] = !admission.Alike(&holding, has)
	switch {
	case !known, r.looks%fullEvery == a.index%fullEvery:
		return true
	case before && r.differs[a.id]:
		r.differs[a.id] = false
		return true
	}
	return false
}

// finding is one placement of which the store and a host say different things.
type finding struct {
	ref  host.Ref
	what admission.Mismatch
}

// compare asks a host about each row, and what else it holds.
func (r *replica) compare(a *agent, rows []pool.Row) {
	var held host.Held
	var found []finding
	a.look(r, func(h *host.Host) {
		held, found = h.Held(), nil
		for i := range rows {
			ref := host.Ref{ID: rows[i].ID, Epoch: rows[i].Epoch}
			reserved, running := h.Holds(ref.ID, ref.Epoch)
			what := admission.CompareRow(&rows[i], reserved, running)
			r.fleet.checkAgreed(&rows[i], reserved, running, what)
			found = append(found, finding{ref, what})
		}
	}, func() {
		r.awake(r.life, func() {
			for _, e := range held.Ends {
				r.end(a, e, 1)
			}
			for _, x := range found {
				r.mend(a, x)
			}
			r.strays(a, found, &held)
		})
	})
}

// strays looks after what a host holds without a row that says so.
func (r *replica) strays(a *agent, found []finding, held *host.Held) {
	known := map[host.Ref]bool{}
	for _, x := range found {
		known[x.ref] = true
	}
	for i := range held.Sandboxes {
		s := &held.Sandboxes[i]
		if ref := (host.Ref{ID: s.ID, Epoch: s.Epoch}); !s.Stopping && !known[ref] {
			r.unexpected(a, ref, s.Ask.Stateful, true)
		}
	}
	for _, ref := range held.Reserved {
		if !known[ref] {
			r.unexpected(a, ref, false, false)
		}
	}
}

// unexpected settles what a host holds and the store, by an older word, did not place there.
func (r *replica) unexpected(a *agent, ref host.Ref, stateful, running bool) {
	var row *pool.Row
	r.transact(writeRows, func() {
		if got, ok := r.fleet.model().ByID(ref.ID); ok {
			row = &got
		}
	}, func(failed bool) {
		if !failed {
			r.mend(a, finding{ref, admission.CompareHeld(a.id, ref, stateful, running, row)})
		}
	})
}

// mend carries out the remedy of a mismatch. Each is guarded by the epoch.
func (r *replica) mend(a *agent, x finding) {
	f, ref := r.fleet, x.ref
	f.checkForgotten(a, x)
	switch x.what {
	case admission.Unheld:
		r.end(a, host.End{ID: ref.ID, Epoch: ref.Epoch, How: host.Lapsed, Reason: "the host does not hold it any more"}, 1)
	case admission.EndUnseen:
		r.end(a, host.End{ID: ref.ID, Epoch: ref.Epoch, How: host.Exited, Reason: "the host does not hold it any more"}, 1)
	case admission.BootUnseen:
		r.track(ref)
	case admission.LostAlive:
		f.meanwhile(ref.ID)
		f.stall(ref.ID, 50, func() { r.transact(writeReturn, func() { f.comeBack(ref, a.id) }, func(bool) {}) })
	case admission.Unreleased, admission.Superseded:
		f.checkStops(a, x)
		a.ask(r, host.Release{ID: ref.ID, Gen: ref.Epoch}, func(host.Answer) {})
	case admission.ReopenUnseen:
		r.reopen(ref)
	case admission.Agreed, admission.Stranded, admission.Unknown:
	}
}

// track writes a boot.
func (r *replica) track(ref host.Ref) {
	r.transact(writeTrack, func() { r.fleet.model().Track(ref.ID, ref.Epoch); r.fleet.store.touched(ref.ID) }, func(bool) {})
}

// reopen writes that a sandbox ended and that its place is kept for the next start.
func (r *replica) reopen(ref host.Ref) {
	r.transact(writeReopen, func() { r.fleet.reopened(ref) }, func(bool) {})
}

// reopened carries it out, and proves that a host has kept the place.
func (f *Fleet) reopened(ref host.Ref) {
	old := f.store.loads.seen[ref.ID]
	ok := f.model().Reopen(ref.ID, ref.Epoch, bootWithin)
	if ok && (old.Epoch != ref.Epoch || !onHost(old.State) || !old.HoldOnExit) {
		f.violate(boots, "%s/%d is kept for a restart, and it was %s/%d", ref.ID, ref.Epoch, old.State, old.Epoch)
	}
	f.store.touched(ref.ID)
}

// checkAgreed proves that a row and its host say the same, by an onlooker's own table.
func (f *Fleet) checkAgreed(row *pool.Row, reserved, running bool, got admission.Mismatch) {
	same := (row.State == pool.Admitted && reserved) || (row.State == pool.Running && running)
	if same != (got == admission.Agreed) {
		f.violate(whole, "%s/%d is %s, its host has it reserved %t, running %t, and that is judged %q", row.ID, row.Epoch, row.State, reserved, running, got)
	}
}

// checkStops proves that what is stopped for being superseded is: the store has it there no
// more, nor lost, so that it could come back.
func (f *Fleet) checkStops(a *agent, x finding) {
	row, ok := f.model().ByID(x.ref.ID)
	if x.what != admission.Superseded || !ok || row.Epoch != x.ref.Epoch || row.State == pool.Releasing {
		return
	}
	if row.Host == a.id || (row.State == pool.Lost && a.witness.running(x.ref.ID) != nil) {
		f.violate(whole, "%s/%d on %s is stopped as superseded, and the store has it %s", x.ref.ID, x.ref.Epoch, a.id, row.State)
	}
}
