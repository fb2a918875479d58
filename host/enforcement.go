package host

import (
	"strconv"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Enforcement says what becomes of a no for want of room, or of a ticket.
type Enforcement uint8

// The enforcements. In Shadow all is computed, counted and told, and nothing is refused for
// room; a host that observes only measures, and promises and boots nothing.
const (
	Enforce Enforcement = iota
	Shadow
	Observe
)

var enforcementNames = [...]string{"enforce", "shadow", "observe"}

// String returns the word of the configuration and the API.
func (e Enforcement) String() string {
	if int(e) < len(enforcementNames) {
		return enforcementNames[e]
	}
	return "unknown"
}

// EnforcementOf reads such a word.
func EnforcementOf(word string) (Enforcement, bool) {
	for i, name := range enforcementNames {
		if word == name {
			return Enforcement(i), true
		}
	}
	return Enforce, false
}

// Waiver is what let a sandbox boot without a reservation.
type Waiver string

// The waivers. A sandbox that redeemed its ticket has none.
const (
	ByShadow Waiver = "shadow"
	ByBypass Waiver = "bypass"
)

// Bypass lets boots in without a ticket for a while: the memory gate and the starts limit
// stay, pools and tickets do not. It ends by itself, by this host's own clock.
type Bypass struct {
	Since  Instant `json:"since,omitempty"`
	Until  Instant `json:"until,omitempty"` // zero: there is none
	By     string  `json:"by,omitempty"`
	Reason string  `json:"reason,omitempty"`
	Booted int64   `json:"booted,omitempty"` // what it let in
}

// LongestBypass bounds what one order may open.
const LongestBypass = 24 * time.Hour

// Deed is what somebody did to this host directly, past every replica. It is told, to each
// of them, until one has written it into the audit. The host, its incarnation and the number
// name it, so that the audit can tell the same deed told twice from two deeds.
type Deed struct {
	N           int64   `json:"n"`                     // rises within an incarnation, over restarts too
	Incarnation int64   `json:"incarnation,omitempty"` // in which it was done
	At          Instant `json:"at"`
	By          string  `json:"by"`
	What        string  `json:"what"` // in the words of the command line
	Reason      string  `json:"reason"`
}

// Enforcement is what is in force: what the host is configured for, and shadow when an
// operator ordered that.
func (h *Host) Enforcement() Enforcement {
	if h.cfg.Enforcement != Enforce {
		return h.cfg.Enforcement
	}
	return h.ordered
}

// enforce takes an operator's order over. A host that is configured to observe has no
// ledger that others rely on, and no order gives it one.
func (h *Host) enforce(e SetEnforcement) {
	switch {
	case e.To != Enforce && e.To != Shadow:
		h.answer(Answer{Denial: Invalid, Detail: "enforcement " + e.To.String()})
	case e.To != h.ordered:
		h.ordered = e.To
		h.record(Record{Kind: RecordEnforcement, Enforcement: e.To, Gone: e.To == Enforce})
	}
}

// ofRoom says whether a denial is for want of what a host has only so much of.
func (d Denial) ofRoom() bool {
	return d == NoRoom || d == Pressure || d == StartsFull || d == LacksDim
}

// waives says whether a denial is told and counted, and no more than that. What an ask could
// never find here is no question of room.
func (h *Host) waives(d Denial, a *gate.Ask) bool {
	return h.Enforcement() == Shadow && d.ofRoom() && h.lacksLabel(*a) == "" && h.undeclared(a) == ""
}

// would counts a no that was not said.
func (h *Host) would(d Denial) Denial {
	if d != "" {
		h.waived[d]++
	}
	return d
}

// waiver is what lets a boot in without a reservation now; "" for nothing.
func (h *Host) waiver() Waiver {
	switch {
	case h.Enforcement() == Shadow:
		return ByShadow
	case h.bypass.Until > 0 && h.Enforcement() == Enforce:
		return ByBypass
	}
	return ""
}

// boot charges a sandbox that has no reservation, in one step with the check: under a bypass
// as a reservation and its redemption would be, in shadow in any case.
func (h *Host) boot(e Boot) {
	by := h.waiver()
	need := gate.Need(e.Ask, h.cfg.Mode)
	denial, detail := h.refusesUnticketed(&e, by, need)
	h.compare(&Reserve{ID: e.ID, Ask: e.Ask}, denial)
	if denial != "" && !h.waives(denial, &e.Ask) {
		h.tally.refused[denial]++
		h.answer(Answer{Denial: denial, Detail: detail, Need: need})
		return
	}
	if denial == "" && by == ByShadow {
		denial = e.Ticket
	}
	h.unstand(e.ID)
	h.tally.admitted++
	e.Ask.HoldOnExit = false // what is kept for a restart is kept under a ticket
	s := h.blank()
	*s = Sandbox{ID: e.ID, Epoch: UnticketedEpoch, Identity: e.Identity, Ask: e.Ask, Redeemed: h.now, Waiver: by}
	h.grants(need)
	h.admitToBoot(s)
	h.charge(s)
	h.recordSandbox(s)
	if by == ByBypass {
		h.bypass.Booted++
		h.recordBypass()
	}
	h.answer(Answer{InLine: s.Phase == InLine, Need: need, Would: h.would(denial)})
}

// UnticketedEpoch is that of sandboxes that booted without a ticket. Their ids are the
// agent's own, and no store ever placed them.
const UnticketedEpoch = 1

func (h *Host) refusesUnticketed(e *Boot, by Waiver, need gate.Bytes) (Denial, string) {
	if fault := faultOf(e.ID, &e.Ask); fault != "" {
		return Invalid, fault
	}
	if by == "" {
		return h.notWaived(), ""
	}
	if _, known := h.ledger.Get(e.ID); known {
		return Used, ""
	}
	if denial, detail := h.refuses(&Reserve{ID: e.ID, Ask: e.Ask}, need); denial != "" {
		return denial, detail
	}
	return h.refusesBoot(false), ""
}

func (h *Host) notWaived() Denial {
	if h.Enforcement() == Observe {
		return Observing
	}
	return NoTicket
}

// setBypass begins a bypass, changes how long it lasts, or ends it.
func (h *Host) setBypass(e SetBypass) {
	switch {
	case e.For < 0 || e.For > LongestBypass:
		h.answer(Answer{Denial: Invalid, Detail: "for"})
		return
	case e.By == "" || e.Reason == "":
		h.answer(Answer{Denial: Invalid, Detail: "by and reason"})
		return
	case e.For == 0:
		h.endBypass(e.By, e.Reason)
		return
	}
	if h.bypass.Until == 0 {
		h.bypass = Bypass{Since: h.now}
	}
	h.bypass.Until, h.bypass.By, h.bypass.Reason = h.now+e.For, e.By, e.Reason
	h.recordBypass()
	h.deed(e.By, "bypass --hosts "+h.cfg.ID+" --for "+e.For.String(), e.Reason)
	h.answer(Answer{Until: h.bypass.Until})
}

// endBypass is idempotent.
func (h *Host) endBypass(by, reason string) {
	if h.bypass.Until == 0 {
		return
	}
	booted := h.bypass.Booted
	h.bypass = Bypass{}
	h.recordBypass()
	h.deed(by, "bypass end --hosts "+h.cfg.ID+", "+strconv.FormatInt(booted, 10)+" booted under it", reason)
}

func (h *Host) lapseBypass() {
	if h.bypass.Until > 0 && h.bypass.Until <= h.now {
		h.endBypass(h.bypass.By, "its time was over")
	}
}

// deed notes what a replica has to write into the audit.
func (h *Host) deed(by, what, reason string) {
	h.lastDeed = max(h.lastDeed+1, h.sequence)
	d := Deed{N: h.lastDeed, Incarnation: h.incarnation, At: h.now, By: by, What: what, Reason: reason}
	h.deeds[d.N] = d
	h.record(Record{Kind: RecordDeed, Epoch: d.N, Deed: d})
}

func (h *Host) deedAcked(e AckedDeed) {
	if _, ok := h.deeds[e.N]; ok {
		delete(h.deeds, e.N)
		h.record(Record{Kind: RecordDeed, Epoch: e.N, Gone: true})
	}
}

func (h *Host) recordBypass() {
	h.record(Record{Kind: RecordBypass, Bypass: h.bypass, Gone: h.bypass.Until == 0})
}
