package pressure

import (
	"cmp"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Candidate is a running sandbox that could pay for a lost bet.
type Candidate struct {
	ID        string
	Stateful  bool
	Priority  int
	IdleSince Instant // the longest idle is the cheapest to replay
	Resident  gate.Bytes
	Reserve   gate.Bytes
}

// Overshoot is what the sandbox uses beyond what it was charged for.
func (c Candidate) Overshoot() gate.Bytes { return c.Resident.Sub(c.Reserve).Positive() }

// Order sorts candidates by who goes first, in place: lowest priority, then idle
// longest, then largest overshoot, then by id. Stateful ones are never part of the bet
// and are removed.
func Order(cs []Candidate) []Candidate {
	cs = slices.DeleteFunc(cs, func(c Candidate) bool { return c.Stateful })
	slices.SortFunc(cs, func(a, b Candidate) int {
		return cmp.Or(
			cmp.Compare(a.Priority, b.Priority),
			cmp.Compare(a.IdleSince, b.IdleSince),
			cmp.Compare(b.Overshoot(), a.Overshoot()),
			cmp.Compare(a.ID, b.ID),
		)
	})
	return cs
}

// Victims returns the shortest head of the order that covers the deficit, but for those without
// whom the others cover it as well; all of it when even that is too little. Who holds nothing gives
// nothing back and is spared.
func Victims(cs []Candidate, deficit gate.Bytes) []Candidate {
	if deficit <= 0 {
		return nil
	}
	cs = Order(slices.DeleteFunc(cs, func(c Candidate) bool { return c.Resident <= 0 }))
	var covered gate.Bytes
	for i, c := range cs {
		if covered = covered.Add(c.Resident); covered >= deficit {
			return spare(cs[:i+1], covered.Sub(deficit))
		}
	}
	return cs
}

// spare takes those out who are not needed, as long as what is covered beyond the deficit allows:
// the last in the order first, since those would be missed most. The very last one is needed, or
// the head would have been shorter.
func spare(head []Candidate, beyond gate.Bytes) []Candidate {
	for i := len(head) - 1; i >= 0; i-- {
		if held := head[i].Resident; held <= beyond {
			beyond = beyond.Sub(held)
			head = slices.Delete(head, i, i+1)
		}
	}
	return head
}
