package host

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// StandFor is how long memory is set aside for a waiter that is not heard of again.
const StandFor = 10 * time.Second

// Standing is a standing reservation: for the first waiter of a kind that finds no host, one
// host sets memory aside as it frees, or small asks would take each piece before there is
// enough. It takes nothing that was promised, promises nothing and cannot be redeemed: the
// waiter's own Reserve is judged as if it were not there, and takes its place. It stands
// while its waiter is present, is not written down, and there is one at most.
type Standing struct {
	ID    string // the waiter's; "" for none
	Ask   gate.Ask
	Need  gate.Bytes
	Until Instant
}

// stand sets memory aside, or goes on doing so.
func (h *Host) stand(e Stand) {
	need := gate.Need(e.Ask, h.cfg.Mode)
	if denial, detail := h.refusesStand(&e, need); denial != "" {
		h.answer(Answer{Denial: denial, Detail: detail})
		return
	}
	until := min(e.Until, h.now+StandFor)
	if h.standing.ID == e.ID {
		until = max(until, h.standing.Until)
	}
	h.standing = Standing{ID: e.ID, Ask: e.Ask, Need: need, Until: until}
	h.answer(Answer{Until: until, Need: need})
}

// refusesStand says why nothing is set aside for an ask. That there is no room now, or that
// the valve is shut, is what it waits for.
func (h *Host) refusesStand(e *Stand, need gate.Bytes) (Denial, string) {
	if fault := faultOf(e.ID, &e.Ask); fault != "" {
		return Invalid, fault
	}
	_, reserved := h.ledger.Open(e.ID)
	switch {
	case e.Incarnation != h.incarnation:
		return OtherLife, ""
	case e.Until <= h.now:
		return LapsedOrNever, ""
	case h.standing.ID != "" && h.standing.ID != e.ID:
		return StandTaken, ""
	case h.sandboxes[e.ID] != nil:
		return StillRunning, ""
	case reserved:
		return Used, ""
	case h.Enforcement() == Observe:
		return Observing, ""
	case h.intake == IntakeDraining:
		return Draining, ""
	case h.intake == IntakeCordoned:
		return Cordoned, ""
	}
	return h.lacksEver(&e.Ask, need)
}

// lacksEver says what an ask would lack here if nothing else were here.
func (h *Host) lacksEver(a *gate.Ask, need gate.Bytes) (Denial, string) {
	if name := h.lacksLabel(*a); name != "" {
		return LacksLabel, name
	}
	if name := h.undeclared(a); name != "" {
		return LacksDim, name
	}
	for _, d := range h.cfg.Dims {
		if a.Takes(d.Name) > d.N {
			return LacksDim, d.Name
		}
	}
	if !gate.Fits(h.maxAsk(), need) {
		return NoRoom, ""
	}
	return "", ""
}

// unstand lets go of what is set aside for a waiter: it has a place, or is gone.
func (h *Host) unstand(id string) {
	if h.standing.ID == id {
		h.standing = Standing{}
	}
}

// lapseStanding ends what is set aside for one that was not heard of again.
func (h *Host) lapseStanding() {
	if h.standing.ID != "" && h.standing.Until <= h.now {
		h.standing = Standing{}
	}
}

// anybody is whoever nothing is set aside for.
const anybody = ""

// accountFor is the account as it stands for one who asks: what is set aside for another is
// taken from what is free, and from nothing that was promised.
func (h *Host) accountFor(id string) gate.Account {
	a := h.account()
	if h.standing.ID != id {
		a.Reserved = a.Reserved.Add(min(h.standing.Need, gate.Room(a).Positive()))
	}
	return a
}

// dimFor is what is left of the i-th declared dimension for one who asks, likewise.
func (h *Host) dimFor(i int, id string) int64 {
	left := h.dimLeft(i)
	if h.standing.ID == anybody || h.standing.ID == id {
		return left
	}
	return left - min(h.standing.Ask.Takes(h.cfg.Dims[i].Name), max(left, 0))
}

// dimOffered is what is said of it: more may be taken than there is now.
func (h *Host) dimOffered(i int) int64 { return max(h.dimFor(i, anybody), 0) }
