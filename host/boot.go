package host

import "slices"

// redeem closes the reservation and charges the sandbox in one step. What was promised
// boots under pressure and cordon; a draining host, a lost bet and a full line refuse
// before anything is closed.
func (h *Host) redeem(e Redeem) {
	if reserved, _ := h.Holds(e.ID, e.Epoch); !reserved {
		h.answer(Answer{Denial: h.whyNot(e.ID, e.Epoch)})
		return
	}
	if denial := h.refusesBoot(); denial != "" {
		h.answer(Answer{Denial: denial})
		return
	}
	entry, _ := h.ledger.Redeem(h.now, e.ID, e.Epoch)
	closed, _ := h.ledger.Get(e.ID)
	h.recordEntry(closed)
	s := h.blank()
	*s = Sandbox{ID: e.ID, Epoch: e.Epoch, Identity: e.Identity, Ask: entry.Ask, Redeemed: h.now}
	h.admitToBoot(s)
	h.charge(s)
	h.recordSandbox(s)
	h.answer(Answer{InLine: s.Phase == InLine})
}

// admitToBoot gives a sandbox a start, or the next place in the line.
func (h *Host) admitToBoot(s *Sandbox) {
	if h.starting < h.cfg.MaxStarts {
		s.Phase = Starting
		return
	}
	h.turn++
	s.Phase, s.Turn = InLine, h.turn
	h.line = append(h.line, s.ID)
}

// refusesBoot says what stands against any boot now.
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
	end := End{ID: s.ID, Epoch: s.Epoch, How: Exited, Reason: e.Reason}
	if e.Evicted {
		end.How = Evicted
	}
	h.end(end)
	h.recordGone(s)
	h.discharge(s)
	h.answer(Answer{})
}
