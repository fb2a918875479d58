package host

import (
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ledger"
)

// reserve is check and promise in one step.
func (h *Host) reserve(e Reserve) {
	if e.Incarnation != h.incarnation {
		h.answer(Answer{Denial: OtherLife})
		return
	}
	if s := h.sandboxes[e.ID]; s != nil {
		h.answer(Answer{Denial: StillRunning})
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
	if denial, detail := h.refuses(e, need); denial != "" {
		h.recordEntry(h.ledger.Deny(h.now, e.ID, e.Gen))
		h.answer(Answer{Denial: denial, Detail: detail, Need: need})
		return
	}
	h.recordEntry(h.ledger.Reserve(h.now, ledger.Entry{ID: e.ID, Gen: e.Gen, Need: need, Until: e.Until, Ask: e.Ask}))
	h.yes(e.ID)
}

// refuses says why an ask gets nothing here now. What a lower generation of the same id
// still holds is replaced, so it counts as room.
func (h *Host) refuses(e Reserve, need gate.Bytes) (Denial, string) {
	held := h.ledger.Held(e.ID)
	replaced := 0
	if held > 0 {
		replaced = 1
	}
	switch {
	case h.intake == IntakeDraining:
		return Draining, ""
	case h.intake == IntakeCordoned:
		return Cordoned, ""
	case h.Intake() == IntakePressure:
		return Pressure, string(h.valve.Shut())
	case h.promisedStarts()-replaced >= h.cfg.MaxStarts+h.cfg.MaxWaitingStarts:
		return StartsFull, ""
	}
	if name := h.lacksLabel(e.Ask); name != "" {
		return LacksLabel, name
	}
	if name := h.lacksDim(e.ID, e.Ask); name != "" {
		return LacksDim, name
	}
	room := gate.Room(h.account()).Add(held)
	if !gate.Fits(gate.FromMiB(room.Positive().FloorMiB()), need) {
		return NoRoom, ""
	}
	return "", ""
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
		h.answer(Answer{Denial: h.whyNot(e.ID, e.Epoch, entry, entry.ID != "")})
		return
	}
	h.recordEntry(entry)
	h.yes(e.ID)
}

// release ends a placement. Of a sandbox the end follows when it is gone.
func (h *Host) release(e Release) {
	if s := h.sandboxes[e.ID]; s != nil && s.Epoch <= e.Gen {
		h.stop(s)
		h.answer(Answer{Running: true})
		return
	}
	if entry, closed := h.ledger.Release(h.now, e.ID, e.Gen); closed {
		h.recordEntry(entry)
	}
	h.answer(Answer{})
}

// stop asks the shell to stop a sandbox. One that waits for its start never had any
// process, but its redeemer may be about to make one: it is told by the same word.
func (h *Host) stop(s *Sandbox) {
	s.Stopping = true
	h.fx.Stops = append(h.fx.Stops, Ref{s.ID, s.Epoch})
}

// yes answers with the reservation as it stands.
func (h *Host) yes(id string) {
	e, _ := h.ledger.Get(id)
	h.answer(Answer{Until: e.Until, Need: e.Need})
}

func (h *Host) answer(a Answer) { h.fx.Answer = a }

// whyNot says why (id, epoch) cannot be redeemed or renewed, from the record in its way.
func (h *Host) whyNot(id string, epoch int64, e ledger.Entry, known bool) Denial {
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

// lacksDim names the first hard dimension that the ask does not fit.
func (h *Host) lacksDim(id string, a gate.Ask) string {
	for _, d := range a.Dims {
		if d.N > h.dimCapacity(d.Name)-h.dimUse(id, d.Name) {
			return d.Name
		}
	}
	if h.declares(SandboxDim) && h.dimUse(id, SandboxDim) >= h.dimCapacity(SandboxDim) {
		return SandboxDim
	}
	return ""
}

func (h *Host) declares(name string) bool {
	return slices.ContainsFunc(h.cfg.Dims, func(d gate.Dim) bool { return d.Name == name })
}

// dimCapacity is zero for a dimension that the host does not declare: there is none of it.
func (h *Host) dimCapacity(name string) int64 { return amount(h.cfg.Dims, name) }

// dimUse sums a dimension over what is promised and what runs, except for one id.
func (h *Host) dimUse(except, name string) int64 {
	var n int64
	h.ledger.Each(func(e ledger.Entry) {
		if e.State == ledger.Open && e.ID != except {
			n += takes(e.Ask, name)
		}
	})
	for id, s := range h.sandboxes {
		if id != except {
			n += takes(s.Ask, name)
		}
	}
	return n
}

func takes(a gate.Ask, name string) int64 {
	if name == SandboxDim {
		return max(1, amount(a.Dims, name))
	}
	return amount(a.Dims, name)
}

func amount(dims []gate.Dim, name string) int64 {
	for _, d := range dims {
		if d.Name == name {
			return d.N
		}
	}
	return 0
}
