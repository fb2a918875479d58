package host

import (
	"cmp"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Stray is what runs here out of gate: in no ledger's name. It is charged what it holds.
type Stray struct {
	ID    string
	Where string // its cgroup; "" for a process tree without one of its own
	PIDs  []int
	// Lost says that it was booted here under a ticket once, whose admission the ID is, and that
	// the file that remembered it was lost: that slot is in use, and nothing else of that
	// admission may boot here.
	Lost     bool
	Resident gate.Bytes
}

// outOfGate takes over what runs without a ticket.
func (h *Host) outOfGate(e OutOfGate) {
	was := h.outside
	h.strays, h.outside = append(h.strays[:0], e.Strays...), 0
	slices.SortFunc(h.strays, func(a, b Stray) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Where, b.Where)) })
	for i := range h.strays {
		s := &h.strays[i]
		s.Resident = min(s.Resident.Positive(), gate.PiB)
		h.outside = h.outside.Add(s.Resident)
	}
	h.meter.spends(h.outside.Sub(was))
}

// inBudget is what counts against the operator's budget.
func (h *Host) inBudget() gate.Bytes { return h.resident.Add(h.outside) }

// lost says whether an admission's sandbox runs on here though its ledger was lost.
func (h *Host) lost(id string) bool {
	return slices.ContainsFunc(h.strays, func(s Stray) bool { return s.Lost && s.ID == id })
}
