package host

import "slices"

// redeem closes the reservation and charges the sandbox in one step. What was promised
// boots under pressure and cordon; a draining host, a lost bet and a full line refuse
// before anything is closed.
func (h *Host) redeem(e Redeem) {
	entry, known := h.ledger.Get(e.ID)
	if !known || !h.isOpen(e.ID, e.Epoch) {
		h.answer(Answer{Denial: h.whyNot(e.ID, e.Epoch, entry, known)})
		return
	}
	if denial := h.refusesBoot(); denial != "" {
		h.answer(Answer{Denial: denial})
		return
	}
	entry, _, _ = h.ledger.Redeem(h.now, e.ID, e.Epoch)
	h.recordClosed(e.ID)
	s := &Sandbox{ID: e.ID, Epoch: e.Epoch, Identity: e.Identity, Ask: entry.Ask, Phase: InLine, Redeemed: h.now}
	h.charge(s)
	h.line = append(h.line, s.ID)
	h.recordSandbox(s)
	h.grantStarts()
	h.fx.Starts = slices.DeleteFunc(h.fx.Starts, func(r Ref) bool { return r.ID == s.ID })
	h.answer(Answer{InLine: s.Phase == InLine})
}

func (h *Host) isOpen(id string, epoch int64) bool {
	reserved, _ := h.Holds(id, epoch)
	return reserved
}

func (h *Host) refusesBoot() Denial {
	switch {
	case h.intake == IntakeDraining:
		return Draining
	case h.meter.reading.Lost(h.cfg.Marks) && h.meter.seen:
		return Pressure
	case len(h.line) >= h.cfg.MaxWaitingStarts && h.starting >= h.cfg.MaxStarts:
		return StartsFull
	}
	return ""
}

// grantStarts lets the head of the line start while fewer than MaxStarts are starting.
func (h *Host) grantStarts() {
	for len(h.line) > 0 && h.starting < h.cfg.MaxStarts {
		s := h.sandboxes[h.line[0]]
		h.line = slices.Delete(h.line, 0, 1)
		s.Phase = Starting
		h.starting++
		h.fx.Starts = append(h.fx.Starts, Ref{s.ID, s.Epoch})
		h.recordSandbox(s)
	}
}

// promisedStarts counts every start that was promised and not yet given back: the
// dimension "waiting starts" counts open reservations too, so that each finds its place.
func (h *Host) promisedStarts() int { return h.ledger.Count() + len(h.line) + h.starting }

// track gives the start back and knows the sandbox by its process from now on.
func (h *Host) track(e Track) {
	s := h.sandboxes[e.ID]
	switch {
	case s == nil || s.Epoch != e.Epoch:
		h.answer(Answer{Denial: NotSuch})
		return
	case s.Phase == Running:
		h.answer(Answer{Running: true})
		return
	case s.Phase == InLine:
		h.answer(Answer{Denial: StartsFull})
		return
	}
	s.Phase, s.Process, s.Tracked = Running, e.Process, h.now
	h.starting--
	h.recordSandbox(s)
	h.answer(Answer{Running: true})
	if s.Stopping {
		h.fx.Stops = append(h.fx.Stops, Ref{s.ID, s.Epoch})
	}
}

// done is the one point at which a sandbox's end frees its memory, its start and, once a
// replica has written the end, its slot. It is idempotent by (id, epoch).
func (h *Host) done(e Done) {
	s := h.sandboxes[e.ID]
	if s == nil || s.Epoch != e.Epoch {
		h.answer(Answer{Denial: NotSuch})
		return
	}
	switch s.Phase {
	case Starting:
		h.starting--
	case InLine:
		h.line = slices.DeleteFunc(h.line, func(id string) bool { return id == s.ID })
	}
	h.discharge(s)
	h.recordGone(s)
	end := End{ID: s.ID, Epoch: s.Epoch, How: Exited, Reason: e.Reason}
	if e.Evicted {
		end.How = Evicted
	}
	h.end(end)
	h.recordEnd(end)
	h.answer(Answer{})
}
