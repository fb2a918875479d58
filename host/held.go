package host

import (
	"cmp"
	"slices"
	"strings"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ledger"
)

// Held is all that a host answers for to its replicas at one moment: not what it admitted
// by itself.
type Held struct {
	Reserved  []Ref // open reservations
	Sandboxes []Sandbox
	Ends      []End   // that no replica has written
	Deeds     []Deed  // likewise, in the order in which they were done
	OutOfGate []Stray // the shell may know them better
	Recorded  []Recorded
}

// Recorded is one that is reserved or runs, and that this host alone records: whose it is, no
// store knows.
type Recorded struct {
	ID string
	Placed
}

// Held returns it, in order of ids.
func (h *Host) Held() Held {
	held := Held{Sandboxes: h.View().Sandboxes, Ends: h.Unwritten(), OutOfGate: slices.Clone(h.strays)}
	held.Sandboxes = slices.DeleteFunc(held.Sandboxes, func(s Sandbox) bool { return Local(s.ID) })
	h.ledger.Each(func(e ledger.Entry) {
		if e.State == ledger.Open && !Local(e.ID) {
			held.Reserved = append(held.Reserved, Ref{ID: e.ID, Epoch: e.Gen})
			h.addRecorded(&held, e.ID)
		}
	})
	for i := range held.Sandboxes {
		h.addRecorded(&held, held.Sandboxes[i].ID)
	}
	for _, d := range h.deeds {
		held.Deeds = append(held.Deeds, d)
	}
	slices.SortFunc(held.Deeds, func(a, b Deed) int { return cmp.Compare(a.N, b.N) })
	slices.SortFunc(held.Recorded, func(a, b Recorded) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(held.Reserved, func(a, b Ref) int { return cmp.Compare(a.ID, b.ID) })
	return held
}

func (h *Host) addRecorded(to *Held, id string) {
	if strings.HasPrefix(id, ledger.ByHostPrefix) {
		to.Recorded = append(to.Recorded, Recorded{ID: id, Placed: h.Placed(id)})
	}
}

// Placed is what a host has of one admission.
type Placed struct {
	Epoch    int64 // zero: it knows nothing of it
	Reserved bool
	Running  bool // charged, whether it has started or not
	Tracked  Instant
	Identity Identity
	Ask      gate.Ask // while it is reserved or running
	Until    Instant  // of what is reserved
	Now      Instant
}

// Placed returns it. Of what has ended a host remembers for a while whose it was.
func (h *Host) Placed(id string) Placed {
	if s := h.sandboxes[id]; s != nil {
		return Placed{Epoch: s.Epoch, Running: true, Tracked: s.Tracked, Identity: s.Identity, Ask: s.Ask, Now: h.now}
	}
	e, known := h.ledger.Get(id)
	if !known {
		return Placed{Now: h.now}
	}
	return Placed{Epoch: e.Gen, Reserved: e.State == ledger.Open, Identity: e.Whose, Ask: e.Ask, Until: e.Until, Now: h.now}
}
