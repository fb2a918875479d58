package host

import (
	"cmp"
	"slices"

	"github.com/plimsoll-project/plimsoll/ledger"
)

// Held is all that a host answers for at one moment.
type Held struct {
	Reserved  []Ref // open reservations
	Sandboxes []Sandbox
	Ends      []End   // that no replica has written
	OutOfGate []Stray // filled in by the shell: the ledger knows nothing of them
}

// Stray is what was booted here under a ticket once, and runs on in no ledger's name: the file
// that remembered it was lost.
type Stray struct {
	ID    string
	Where string // its cgroup
	PIDs  []int
}

// Held returns it, in order of ids.
func (h *Host) Held() Held {
	held := Held{Sandboxes: h.View().Sandboxes, Ends: h.Unwritten()}
	h.ledger.Each(func(e ledger.Entry) {
		if e.State == ledger.Open {
			held.Reserved = append(held.Reserved, Ref{ID: e.ID, Epoch: e.Gen})
		}
	})
	slices.SortFunc(held.Reserved, func(a, b Ref) int { return cmp.Compare(a.ID, b.ID) })
	return held
}
