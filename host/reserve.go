package host

import (
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ledger"
)

// reserve is check and promise in one step.
func (h *Host) reserve(e Reserve) {
	switch fault := faultOf(e.ID, &e.Ask); {
	case fault != "":
		h.answer(Answer{Denial: Invalid, Detail: fault})
		return
	case e.Incarnation != h.incarnation:
		h.answer(Answer{Denial: OtherLife})
		return
	}
	switch h.ledger.Judge(h.now, e.ID, e.Gen, e.Until) {
	case ledger.Same:
		h.yes(e.ID)
		return
	case ledger.Superseded:
		h.answer(Answer{Denial: Superseded})
		return
	case ledger.Closed:
		h.answer(Answer{Denial: Closed})
		return
	case ledger.Late:
		h.answer(Answer{Denial: LapsedOrNever})
		return
	}
	need := gate.Need(e.Ask, h.cfg.Mode)
	denial, detail := h.refuses(&e, need)
	h.compare(&e, denial)
	if denial != "" && !h.waives(denial, &e.Ask) {
		h.supersede(e)
		h.recordEntry(h.ledger.Deny(h.now, e.ID, e.Gen))
		h.tally.refused[denial]++
		h.answer(Answer{Denial: denial, Detail: detail, Need: need})
		return
	}
	h.unstand(e.ID)
	h.grants(need)
	h.tally.admitted++
	h.recordEntry(h.ledger.Reserve(h.now, ledger.Entry{ID: e.ID, Gen: e.Gen, Need: need, Other: gate.Need(e.Ask, h.cfg.Mode.Other()), Until: e.Until, Ask: e.Ask, Whose: e.Whose}))
	h.yes(e.ID)
	h.fx.Answer.Would = h.would(denial)
}

// faultOf names what is no ask at all, or "".
func faultOf(id string, a *gate.Ask) string {
	if id == "" {
		return "id"
	}
	return a.Fault()
}

// refuses says why an ask gets nothing here now. What a lower generation of the same id
// still holds is replaced, so it counts as room.
func (h *Host) refuses(e *Reserve, need gate.Bytes) (Denial, string) {
	held, replaces := h.ledger.Open(e.ID)
	starts := h.promisedStarts()
	if replaces && !held.Reopened {
		starts--
	}
	switch {
	case h.sandboxes[e.ID] != nil:
		return StillRunning, ""
	case h.lost(e.ID):
		return StillRunning, ""
	case h.Enforcement() == Observe:
		return Observing, ""
	case h.intake == IntakeDraining:
		return Draining, ""
	case h.intake == IntakeCordoned:
		return Cordoned, ""
	case h.Intake() == IntakePressure:
		return Pressure, string(h.valve.Shut())
	case starts >= h.cfg.MaxStarts+h.cfg.MaxWaitingStarts:
		return StartsFull, ""
	}
	if name := h.lacksLabel(e.Ask); name != "" {
		return LacksLabel, name
	}
	if name := h.lacksDim(e, &held.Ask, replaces); name != "" {
		return LacksDim, name
	}
	account := h.accountFor(e.ID)
	account.Reserved = account.Reserved.Sub(held.Need)
	if !gate.Fits(h.offers(account), need) {
		return NoRoom, ""
	}
	return "", ""
}

// supersede notes that an admission has gone on from what runs here: when that ends, no
// place is kept for it.
func (h *Host) supersede(e Reserve) {
	s := h.sandboxes[e.ID]
	if s != nil && s.Ask.HoldOnExit && e.Gen > s.Epoch && !s.Superseded {
		s.Superseded = true
		h.recordSandbox(s)
	}
}

func (h *Host) renew(e Renew) {
	if e.Incarnation != h.incarnation {
		h.answer(Answer{Denial: OtherLife})
		return
	}
	if s := h.sandboxes[e.ID]; s != nil && s.Epoch == e.Epoch {
		h.answer(Answer{Running: true})
		return
	}
	entry, ok := h.ledger.Renew(h.now, e.ID, e.Epoch, e.Until)
	if !ok {
		h.answer(Answer{Denial: h.whyNot(e.ID, e.Epoch)})
		return
	}
	h.recordEntry(entry)
	h.yes(e.ID)
}

// release ends a placement. Of a sandbox the end follows when it is gone.
func (h *Host) release(e Release) {
	if entry, closed := h.ledger.Release(h.now, e.ID, e.Gen); closed {
		h.recordEntry(entry)
	}
	if h.lost(e.ID) { // its own caller wants it gone; nobody tells its end
		h.fx.Stops = append(h.fx.Stops, Ref{e.ID, e.Gen})
		h.answer(Answer{Running: true})
		return
	}
	s := h.sandboxes[e.ID]
	stops := s != nil && s.Epoch <= e.Gen
	if stops {
		h.stop(s)
	}
	h.answer(Answer{Running: stops})
}

// stop asks the shell to stop a sandbox. One that waits for its start never had any
// process, but its redeemer may be about to make one: it is told by the same word.
func (h *Host) stop(s *Sandbox) {
	if !s.Stopping {
		h.digest(s, -1)
		s.Stopping = true
		h.recordSandbox(s)
	}
	h.fx.Stops = append(h.fx.Stops, Ref{s.ID, s.Epoch})
}

// yes answers with the reservation as it stands.
func (h *Host) yes(id string) {
	e, _ := h.ledger.Get(id)
	h.answer(Answer{Until: e.Until, Need: e.Need})
}

func (h *Host) answer(a Answer) { h.fx.Answer = a }

// whyNot says why (id, epoch) cannot be redeemed or renewed, from what is in its way.
func (h *Host) whyNot(id string, epoch int64) Denial {
	e, known := h.ledger.Get(id)
	switch {
	case h.sandboxes[id] != nil && h.sandboxes[id].Epoch == epoch:
		return Used
	case !known || e.Gen < epoch:
		return LapsedOrNever
	case e.Gen > epoch:
		return Superseded
	case e.State == ledger.Redeemed:
		return Used
	case e.State == ledger.Lapsed:
		return LapsedOrNever
	}
	return Closed
}

// lacksLabel names the first label that the ask demands and the host does not carry.
func (h *Host) lacksLabel(a gate.Ask) string {
	for _, l := range a.Labels {
		if !slices.Contains(h.cfg.Labels, l) {
			return l.Name
		}
	}
	return ""
}

// lacksDim names the first hard dimension that an ask does not fit.
func (h *Host) lacksDim(e *Reserve, held *gate.Ask, replaces bool) string {
	if name := h.undeclared(&e.Ask); name != "" {
		return name
	}
	for i, d := range h.cfg.Dims {
		left := h.dimFor(i, e.ID)
		if replaces {
			left += held.Takes(d.Name)
		}
		if takes := e.Ask.Takes(d.Name); takes > 0 && takes > left {
			return d.Name
		}
	}
	return ""
}

// undeclared names the first dimension of an ask that the host does not declare: there is
// nothing of it here.
func (h *Host) undeclared(a *gate.Ask) string {
	for _, d := range a.Dims {
		declared := slices.ContainsFunc(h.cfg.Dims, func(own gate.Dim) bool { return own.Name == d.Name })
		if d.N > 0 && !declared {
			return d.Name
		}
	}
	return ""
}

// dimLeft is what is left of the i-th declared dimension: of what was declared, and of what
// nobody has where that is measured, less what was promised and is not held yet.
func (h *Host) dimLeft(i int) int64 {
	left := h.cfg.Dims[i].N - h.dims[i]
	for _, d := range h.meter.dims {
		if d.Name == h.cfg.Dims[i].Name {
			left = min(left, d.N-(h.dims[i]-h.holds[i]))
		}
	}
	return left - h.ledger.Dim(i)
}
