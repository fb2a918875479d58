package sim

import (
	"slices"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// checkReserve judges a host's answer to a reserve, the yes and the no.
func (f *Fleet) checkReserve(a *agent, e host.Reserve, got host.Answer) {
	w := a.witness
	switch got.Denial {
	case "":
		f.checkPromise(a, e, got)
		return
	case host.NoRoom:
		if room, need := w.roomFor(e.ID, a.cfg.Mode), needOf(e.Ask, a.cfg.Mode); room >= need {
			f.violate(refusals, "host %s denied %s to %s/%d with room for %s", a.id, need, e.ID, e.Gen, room)
		}
	case host.StartsFull:
		if n := w.starting(); n < a.cfg.MaxStarts+a.cfg.MaxWaitingStarts {
			f.violate(refusals, "host %s denied %s/%d for %d starts", a.id, e.ID, e.Gen, n)
		}
	case host.Pressure, host.Cordoned, host.Draining, host.StillRunning:
	default:
		return // nothing was judged, so nothing is remembered
	}
	if c := w.running(e.ID); c != nil && e.Gen > c.epoch {
		c.superseded = true
	}
	w.close(a.clock(), e.ID, e.Gen)
	w.why[e.ID] = got.Denial
}

// checkPromise judges a yes, and writes it down.
func (f *Fleet) checkPromise(a *agent, e host.Reserve, got host.Answer) {
	w := a.witness
	p := w.promised(e.ID)
	if p != nil && p.gen == e.Gen && got.Until == p.until {
		return // the same yes again
	}
	f.fact(factReserve, e.ID, e.Gen)
	delete(w.why, e.ID)
	if a.runsLost(e.ID) {
		f.violate(boots, "host %s promised %s/%d, of which a sandbox runs there out of gate", a.id, e.ID, e.Gen)
	}
	f.checkMayOpen(a, e)
	f.checkFits(a, e, got)
	if most := a.clock() + a.cfg.BootWithin; got.Until > most {
		f.violate(ends, "host %s promised %s/%d for %v longer than a reservation lives", a.id, e.ID, e.Gen, got.Until-most)
	}
	w.close(a.clock(), e.ID, e.Gen)
	if w.aside.id == e.ID {
		w.aside = aside{}
	}
	w.open = append(w.open, promise{id: e.ID, gen: e.Gen, need: needOf(e.Ask, a.cfg.Mode), until: got.Until, ask: e.Ask})
}

// checkMayOpen proves that a generation is opened once, in its turn and in time.
func (f *Fleet) checkMayOpen(a *agent, e host.Reserve) {
	seen := a.witness.seen[e.ID].gen
	if a.forgotten(e) {
		seen = 0
	}
	switch {
	case e.Gen < seen:
		f.violate(boots, "host %s promised to %s/%d, and had seen generation %d", a.id, e.ID, e.Gen, seen)
	case e.Gen == seen:
		f.violate(ends, "host %s promised to %s/%d, which had been closed or denied", a.id, e.ID, e.Gen)
	case e.Until <= a.clock():
		f.violate(ends, "host %s promised to %s/%d, whose time had passed on the way", a.id, e.ID, e.Gen)
	case e.Incarnation != a.incarnation:
		f.violate(ends, "host %s promised to %s/%d, which was sent to its incarnation %d", a.id, e.ID, e.Gen, e.Incarnation)
	}
	if c := a.witness.running(e.ID); c != nil {
		f.violate(boots, "host %s promised to %s/%d, and %d runs there", a.id, e.ID, e.Gen, c.epoch)
	}
}

// forgotten says whether a host may have forgotten what it had closed: an ask that comes so
// late, and claims to be good for longer than any, belies when it was sent.
func (a *agent) forgotten(e host.Reserve) bool {
	return a.clock()-a.witness.seen[e.ID].at > 2*a.cfg.BootWithin && e.Until > a.clock()+a.cfg.BootWithin
}

// checkFits proves that what is promised is there.
func (f *Fleet) checkFits(a *agent, e host.Reserve, got host.Answer) {
	w, need := a.witness, needOf(e.Ask, a.cfg.Mode)
	room, starts := w.roomFor(e.ID, a.cfg.Mode), w.starting()
	if p := w.promised(e.ID); p != nil && !p.again {
		starts--
	}
	switch {
	case e.Ask.Stateful && got.Need < e.Ask.Memory:
		f.violate(stateful, "host %s reserved %s for %s, which is stateful and of %s", a.id, got.Need, e.ID, e.Ask.Memory)
	case a.cfg.Mode == gate.Committed && got.Need < e.Ask.Memory:
		f.violate(stateful, "host %s is committed, and reserved %s for %s of %s", a.id, got.Need, e.ID, e.Ask.Memory)
	case got.Need != need:
		f.violate(promised, "host %s reserved %s for %s, which needs %s", a.id, got.Need, e.ID, need)
	case need > room:
		f.violate(promised, "host %s promised %s to %s/%d with room for %s", a.id, need, e.ID, e.Gen, room)
	case w.mustBeShut(a.clock(), a.cfg.Marks.Dwell) || w.order != host.IntakeOpen || a.host.Intake() != host.IntakeOpen:
		f.violate(promised, "host %s promised to %s/%d while its intake was shut", a.id, e.ID, e.Gen)
	case starts >= a.cfg.MaxStarts+a.cfg.MaxWaitingStarts:
		f.violate(promised, "host %s promised to %s/%d beyond its %d starts", a.id, e.ID, e.Gen, starts)
	}
}

// checkRenew proves that only what stands is lengthened, and by no more than its time to live.
func (f *Fleet) checkRenew(a *agent, e host.Renew, got host.Answer) {
	if got.Denial != "" || got.Running {
		return
	}
	p := a.witness.promised(e.ID)
	switch most := a.clock() + a.cfg.BootWithin; {
	case p == nil || p.gen != e.Epoch:
		f.violate(boots, "host %s renewed %s/%d, which is not open there", a.id, e.ID, e.Epoch)
	case e.Incarnation != a.incarnation:
		f.violate(ends, "host %s renewed %s/%d by the clock of its incarnation %d", a.id, e.ID, e.Epoch, e.Incarnation)
	case got.Until > max(most, p.until):
		f.violate(ends, "host %s renewed %s/%d for %v longer than a reservation lives", a.id, e.ID, e.Epoch, got.Until-most)
	default:
		p.until = got.Until
	}
}

// checkRelease proves that a sandbox which is released is being stopped.
func (f *Fleet) checkRelease(a *agent, e host.Release, got host.Answer) {
	w := a.witness
	if c := w.running(e.ID); c != nil && c.epoch <= e.Gen {
		c.stopped = true
		if !got.Running {
			f.violate(ends, "host %s was told to release %s/%d and says that it is gone, while %d runs", a.id, e.ID, e.Gen, c.epoch)
		}
	}
	if !got.Running && a.runsLost(e.ID) {
		f.violate(ends, "host %s was told to release %s/%d and says that it is gone, while it runs out of gate", a.id, e.ID, e.Gen)
	}
	w.close(a.clock(), e.ID, e.Gen)
}

// checkRedeem proves that a boot had an open reservation under its epoch, and has it no more.
func (f *Fleet) checkRedeem(a *agent, e host.Redeem, got host.Answer) {
	if got.Denial != "" {
		return
	}
	w := a.witness
	p := w.promised(e.ID)
	if p == nil || p.gen != e.Epoch {
		f.violate(boots, "host %s let %s/%d boot, for which no reservation is open", a.id, e.ID, e.Epoch)
		return
	}
	if reserved, _ := a.host.Holds(e.ID, e.Epoch); reserved {
		f.violate(boots, "host %s let %s/%d boot, and its reservation stands", a.id, e.ID, e.Epoch)
	}
	c := charged{id: p.id, epoch: p.gen, ask: p.ask, need: p.need}
	w.close(a.clock(), e.ID, e.Epoch)
	w.runs = append(w.runs, c)
}

// holds says, in the onlooker's own words, which states count against cap and quota.
func holds(s pool.State) bool {
	return s == pool.Placing || onHost(s)
}

func onHost(s pool.State) bool {
	return s == pool.Admitted || s == pool.Running || s == pool.Releasing
}

// checkRow proves that a row came from what it was to what it is by a step that there is.
func (f *Fleet) checkRow(old, row pool.Row) {
	if err := row.Check(); err != nil {
		f.violate(whole, "%v", err)
	}
	if holds(row.State) && !holds(old.State) {
		f.violate(slots, "%s is %s and was %s, and was granted no slot", row.ID, row.State, stateOr(old.State, "nothing"))
	}
	if onHost(row.State) && row.Epoch != row.Gen {
		f.violate(boots, "%s is placed under epoch %d, and its generation is %d", row.ID, row.Epoch, row.Gen)
	}
	if old.Place != 0 && row.Place != old.Place && !row.State.Ended() {
		f.violate(order, "%s had place %d and now has %d", row.ID, old.Place, row.Place)
	}
}

func stateOr(s pool.State, other string) string {
	if s == "" {
		return other
	}
	return string(s)
}

// runsLost says whether a sandbox of an admission runs though its ledger was lost.
func (a *agent) runsLost(id string) bool {
	return slices.ContainsFunc(a.lost(), func(ref host.Ref) bool { return ref.ID == id })
}

// checkForgotten proves that no slot is given back by a comparison while its sandbox runs where
// it was placed.
func (f *Fleet) checkForgotten(a *agent, x finding) {
	if x.what != admission.EndUnseen && x.what != admission.Unheld {
		return
	}
	for running := range a.running {
		if running.ID == x.ref.ID && running.Epoch <= x.ref.Epoch {
			f.violate(whole, "%s/%d is given back as %s, and %d runs on %s", x.ref.ID, x.ref.Epoch, x.what, running.Epoch, a.id)
		}
	}
}
