// Package registry decides who is a host of the fleet and what operators may do to one: how a
// host joins under a token, goes on under its credential, and moves from state to state. The
// stores and their specification judge by it inside one transaction each.
//
// It knows no admission, no arithmetic and no connection: whether a host takes more is its
// agent's word, whether it is dead its lease's. Absence from any list is never death; only to
// bury a host forgets it.
//
//	        cordon            drain
//	active ◀──────▶ cordoned ───────▶ draining
//	  ▲    uncordon    │                 │ bury (empty, or silent)
//	  └── join ── buried ◀───────────────┘
//
// A host that is active may be drained at once, and each may be buried. A draining one never
// turns back: what it held was moved, and whoever waits for it to be empty must be able to
// rely on that. A buried one joins anew, under a new credential.
//
// Worked: the host h1 was heard 12 s ago and runs one sandbox. To bury it is refused, because a
// host that is heard within 30 s is alive. Drained and empty it is buried at once; silent for
// 30 s it is buried with what it holds.
//
// Values are their owner's; the package keeps no state, and may be called concurrently.
package registry

import (
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
)

// State is what operators say of a host; what its agent says of itself is its intake.
type State string

// The states.
const (
	Active   State = "active"
	Cordoned State = "cordoned" // takes nothing new; what was promised boots
	Draining State = "draining" // boots nothing any more; what runs goes on
	Buried   State = "buried"   // nothing of it is believed to run
)

// Deed is what an operator does to a host.
type Deed string

// The deeds.
const (
	Cordon   Deed = "cordon"
	Uncordon Deed = "uncordon"
	Drain    Deed = "drain"
	Bury     Deed = "bury"
)

// After is the state that a deed leads to; ok is false when it is not legal. To say again what
// holds already changes nothing.
func (s State) After(d Deed) (to State, ok bool) {
	switch {
	case d == Bury:
		return Buried, true
	case s == Buried:
		return s, false
	case d == Drain:
		return Draining, true
	case s == Draining:
		return s, false
	case d == Cordon:
		return Cordoned, true
	case d == Uncordon:
		return Active, true
	}
	return s, false
}

// Legal names the deeds that would change a host in this state, for people.
func (s State) Legal() string {
	var out []string
	for _, d := range []Deed{Cordon, Uncordon, Drain, Bury} {
		if to, ok := s.After(d); ok && to != s {
			out = append(out, string(d))
		}
	}
	if len(out) == 0 {
		return "nothing but to join anew"
	}
	return strings.Join(out, ", ")
}

// Host is a host as the registry has it.
type Host struct {
	ID           string
	Incarnation  int64
	Endpoint     string // where replicas dial its agent; empty: it is in a replica's own process
	State        State
	Version      string // of its agent
	Bounds       Bounds
	RegisteredAt pool.Time // its life began
	HeardAt      pool.Time // by any replica
	BuriedAt     pool.Time // zero: it is not
	Credential   Digest    // zero: it has none
}

// Digest is the SHA-256 of a secret; the secret itself is kept nowhere.
type Digest [32]byte

// Bounds are what a host can hold at most, by its own word: enough to judge, before it is
// heard again, whether an ask could ever fit there.
type Bounds struct {
	Mode   gate.Mode
	MaxAsk gate.Bytes // zero: not measured yet
	Labels []gate.Label
	Limits []gate.Dim // of its hard dimensions
}

// Equal says whether they are the same.
func (b Bounds) Equal(o Bounds) bool {
	return b.Mode == o.Mode && b.MaxAsk == o.MaxAsk && slices.Equal(b.Labels, o.Labels) && slices.Equal(b.Limits, o.Limits)
}

// Change is an operator's deed, and why.
type Change struct {
	Host   string
	Deed   Deed
	By     string // consumer
	Reason string
	Silent time.Duration // a host heard within that is alive
}

// Verdict is what becomes of a Change.
type Verdict string

// The verdicts.
const (
	Changed Verdict = "changed"
	Same    Verdict = "same"    // it was so already
	Unknown Verdict = "unknown" // no such host
	Illegal Verdict = "illegal" // its state does not lead there
	Alive   Verdict = "alive"   // it was heard lately, and is not both draining and empty
)

// Judge says what becomes of a change; h is nil for a host that nobody knows, and held how
// many admissions the store has on it. A silence that nobody could have broken is none.
func Judge(c *Change, h *Host, held int64, now, heardSince pool.Time) Verdict {
	if h == nil {
		return Unknown
	}
	to, ok := h.State.After(c.Deed)
	switch {
	case !ok:
		return Illegal
	case to == h.State:
		return Same
	case to == Buried && (h.State != Draining || held > 0) && now.Since(max(h.HeardAt, heardSince)) < c.Silent:
		return Alive
	}
	return Changed
}

// Apply carries out a change that was judged to be one.
func (c *Change) Apply(h *Host, now pool.Time) {
	h.State, _ = h.State.After(c.Deed)
	if h.State == Buried {
		h.BuriedAt = now // its credential stays, so that it can be told; it is void
	}
}
