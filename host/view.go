package host

import (
	"cmp"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// View is the arithmetic of a host, laid open for people: every number that admittable
// is made of.
type View struct {
	Verdict      Verdict
	Limits       []gate.Limit
	Binding      string // the limit with the least room
	Account      gate.Account
	Reservations int
	Reopened     int // of them, kept for the next start of a sandbox that ended
	Standing     Standing
	Sandboxes    []Sandbox
	Charges      []gate.Bytes // of each sandbox
	Resident     gate.Bytes   // Σ over sandboxes
	Committed    gate.Bytes   // Σ configured over sandboxes
	Starting     int
	InLine       int
	Refaults     int64   // pages of files that sandboxes read again soon after they were dropped, in this life of the agent
	AllRefaults  Counter // of the whole machine, since it started
	Config       Config
	Reading      pressure.Reading
	Shut         pressure.Cause
	Waived       []Waived
	Bypass       Bypass
	OutOfGate    []Stray
	Outside      gate.Bytes // Σ resident over them
	Reclaim      Reclaim
	Lost         bool       // by the last reading
	Evictions    []Eviction // the last of them, in order
	RampLeft     gate.Bytes // what may be promised within this step after an out-of-memory kill
	RampNext     Instant    // when the next one begins; zero: there is none
	Tally        Tally
}

// Waived counts a no that was only told, in this life of the agent.
type Waived struct {
	Denial Denial
	N      int64
}

func (h *Host) waivedNos() (out []Waived) {
	for d, n := range h.waived {
		out = append(out, Waived{d, n})
	}
	slices.SortFunc(out, func(a, b Waived) int { return cmp.Compare(a.Denial, b.Denial) })
	return out
}

// View returns a copy that stays valid.
func (h *Host) View() View {
	v := View{
		Verdict: h.Verdict(), Limits: slices.Clone(h.meter.limits), Binding: h.meter.binding,
		Account: h.account(), Reservations: h.ledger.Count(), Reopened: h.ledger.Reopened(), Standing: h.standing, Resident: h.resident, Refaults: h.refaults, AllRefaults: h.meter.refaults,
		Starting: h.starting, InLine: len(h.line), Config: h.cfg,
		Reading: h.meter.reading, Shut: h.valve.Shut(),
		Waived: h.waivedNos(), Bypass: h.bypass,
		OutOfGate: slices.Clone(h.strays), Outside: h.outside,
		Reclaim: h.Reclaim(), Lost: h.debt.lost, Evictions: slices.Clone(h.evictions), Tally: h.tallied(),
	}
	if h.ramp.on {
		v.RampLeft, v.RampNext = h.rampLeft(), h.rampDue()
	}
	v.Sandboxes, v.Charges = make([]Sandbox, 0, len(h.sandboxes)), make([]gate.Bytes, 0, len(h.sandboxes))
	for _, s := range h.sandboxes {
		v.Sandboxes = append(v.Sandboxes, *s)
		v.Committed = v.Committed.Add(s.Ask.Memory)
	}
	slices.SortFunc(v.Sandboxes, func(a, b Sandbox) int {
		return cmp.Or(cmp.Compare(a.Redeemed, b.Redeemed), cmp.Compare(a.ID, b.ID))
	})
	for i := range v.Sandboxes {
		v.Charges = append(v.Charges, h.Charge(&v.Sandboxes[i]))
	}
	return v
}

// Charged adds the sandboxes that are charged here to a list, in no order.
func (h *Host) Charged(to []Sandbox) []Sandbox {
	for _, s := range h.sandboxes {
		to = append(to, *s)
	}
	return to
}

// Sandbox returns a sandbox that is charged here.
func (h *Host) Sandbox(id string) (Sandbox, bool) {
	if s := h.sandboxes[id]; s != nil {
		return *s, true
	}
	return Sandbox{}, false
}
