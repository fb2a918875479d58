package host

import (
	"cmp"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ledger"
)

// redeem closes the reservation and charges the sandbox in one step. What was promised
// boots under pressure and cordon; a draining host, a lost bet and a full line refuse
// before anything is closed.
func (h *Host) redeem(e Redeem) {
	promised, open := h.ledger.Open(e.ID)
	if !open || promised.Gen != e.Epoch {
		h.answer(Answer{Denial: h.whyNot(e.ID, e.Epoch)})
		return
	}
	denial := h.refusesBoot(promised.Reopened)
	if denial != "" && !h.waives(denial, &promised.Ask) {
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
	h.answer(Answer{InLine: s.Phase == InLine, Would: h.would(denial)})
}

// admitToBoot gives a sandbox a start, or the next place in the line.
func (h *Host) admitToBoot(s *Sandbox) {
	if h.startsFree() {
		s.Phase = Starting
		return
	}
	h.turn++
	s.Phase, s.Turn = InLine, h.turn
	h.line = append(h.line, s.ID)
}

// startsFree says whether one more may start now. In shadow nobody waits for that.
func (h *Host) startsFree() bool {
	return h.starting < h.cfg.MaxStarts || h.Enforcement() == Shadow
}

// waitingStarts is how many wait for a start; in shadow those that would.
func (h *Host) waitingStarts() int {
	if h.Enforcement() == Shadow {
		return max(h.starting-h.cfg.MaxStarts, 0)
	}
	return len(h.line)
}

// refusesBoot says what stands against a boot now: against any, or against one that starts
// anew, to which no start was promised.
func (h *Host) refusesBoot(anew bool) Denial {
	switch {
	case h.Enforcement() == Observe:
		return Observing
	case h.intake == IntakeDraining:
		return Draining
	case h.meter.reading.Lost(h.cfg.Marks) && h.meter.seen:
		return Pressure
	case h.waitingStarts() >= h.cfg.MaxWaitingStarts && h.starting >= h.cfg.MaxStarts:
		return StartsFull
	case anew && h.promisedStarts() >= h.cfg.MaxStarts+h.cfg.MaxWaitingStarts:
		return StartsFull
	}
	return ""
}

// grantStarts lets the head of the line start while fewer than MaxStarts are starting.
func (h *Host) grantStarts() {
	for len(h.line) > 0 && h.startsFree() {
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
// Re-opened ones are not among them: they may stand for as long as their callers like, and
// would keep everybody else from being placed here.
func (h *Host) promisedStarts() int {
	return h.ledger.Count() - h.ledger.Reopened() + len(h.line) + h.starting
}

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
	h.digest(s, -1)
	s.Phase, s.Process, s.Tracked, s.Active = Running, e.Process, h.now, h.now
	h.digest(s, +1)
	h.starting--
	h.recordSandbox(s)
	h.answer(Answer{Running: true})
	if s.Stopping {
		h.fx.Stops = append(h.fx.Stops, Ref{s.ID, s.Epoch})
	}
}

// done is the one point at which a sandbox's end frees its memory, its start and, once a
// replica has written the end, its slot; or at which its memory is kept for its next start.
// It is idempotent by (id, epoch).
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
	h.answer(Answer{})
	if e.OutOfMemory {
		h.tally.killed++
		h.outOfMemory()
	}
	e.Evicted = e.Evicted || e.OutOfMemory || s.Evicting != "" && (e.By != "" || s.Ask.HoldOnExit)
	entry, kept := h.keep(s, e)
	if !kept {
		end := endOf(s, e)
		if e.Evicted {
			h.fx.Answer.Evicted = end.Reason
		}
		end.Unbooted = s.Phase == Starting && !s.Stopping && !e.Evicted && h.now-s.Redeemed <= failsWithin
		h.end(end)
	}
	h.ran(s)
	h.evicted(s, e.By)
	h.recordGone(s)
	h.discharge(s)
	if kept { // written down after what ended was: a torn record never has both
		h.recordEntry(entry)
		if !Local(e.ID) {
			h.fx.Reopens = append(h.fx.Reopens, Ref{e.ID, e.Epoch})
		}
		h.yes(e.ID)
	}
}

// failsWithin is how soon after its redemption an end without a track is a boot that failed;
// later it is a redeemer that was slow, or gone.
const failsWithin = 30 * time.Second

func endOf(s *Sandbox, e Done) End {
	end := End{ID: e.ID, Epoch: e.Epoch, How: Exited, Reason: e.Reason}
	if e.Evicted {
		end.How = Evicted
	}
	if e.Evicted && s.Evicting != "" {
		end.Reason = string(cmp.Or(e.By, GoneBefore)) + ": " + s.Evicting
	}
	return end
}

// keep turns the charge of a sandbox that ended by itself back into an open reservation, if
// its ask says so. What had not been tracked never ran as far as anybody here knows: its
// start was abandoned, and whatever its booter made of it may still be there.
func (h *Host) keep(s *Sandbox, e Done) (ledger.Entry, bool) {
	_, told := h.ends[Ref{s.ID, s.Epoch}]
	switch {
	case !s.Ask.HoldOnExit || s.Phase != Running || e.Evicted || told:
		return ledger.Entry{}, false
	case s.Stopping || s.Superseded || h.intake == IntakeDraining:
		return ledger.Entry{}, false
	}
	need := gate.Need(s.Ask, h.cfg.Mode)
	if more := need.Sub(h.Charge(s)); more > 0 && !gate.Fits(h.Admittable(), more) && !h.waives(NoRoom, &s.Ask) {
		return ledger.Entry{}, false // its rule dropped its reserve, and others have that now
	}
	return h.ledger.Reopen(h.now, ledger.Entry{ID: s.ID, Gen: s.Epoch, Need: need, Other: gate.Need(s.Ask, h.cfg.Mode.Other()), Ask: s.Ask, Whose: s.Identity})
}
