package host

import (
	"cmp"
	"slices"

	"github.com/plimsoll-project/plimsoll/ledger"
)

// Held is all that a host answers for to its replicas at one moment: not what it admitted
// by itself.
type Held struct {
	Reserved  []Ref // open reservations
	Sandboxes []Sandbox
	Ends      []End // that no replica has written
}

// Held returns it, in order of ids.
func (h *Host) Held() Held {
	held := Held{Sandboxes: h.View().Sandboxes, Ends: h.Unwritten()}
	held.Sandboxes = slices.DeleteFunc(held.Sandboxes, func(s Sandbox) bool { return Local(s.ID) })
	h.ledger.Each(func(e ledger.Entry) {
		if e.State == ledger.Open && !Local(e.ID) {
			held.Reserved = append(held.Reserved, Ref{ID: e.ID, Epoch: e.Gen})
		}
	})
	slices.SortFunc(held.Reserved, func(a, b Ref) int { return cmp.Compare(a.ID, b.ID) })
	return held
}
