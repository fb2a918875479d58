package ticket

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// This file decides a rotation's next step. What a root is doing is said by its state and by
// where it stands, for roots stand in the order of their age:
//
//	       Add              every holder knows it               nobody signs with it
//	(new) ─────▶ verify-only ─────────────────────▶ signing ─────┐   any more
//	             behind the signing one                          ▼
//	             (gone) ◀──── its last ticket has ended ──── verify-only
//	                                                         before the signing one

// Holder is whoever mints or verifies with a keyring of roots: a replica.
type Holder struct {
	Name  string
	Signs string   // id of the root that it mints with; empty: it mints nothing
	Knows []string // ids of all that it accepts
}

// IDs names the roots for others: the signing one first, an empty id for none.
func (k Keyring) IDs() string {
	ids := []string{""}
	for _, r := range k.roots {
		if r.state == Signing {
			ids[0] = r.id
		} else {
			ids = append(ids, r.id)
		}
	}
	return strings.Join(ids, ",")
}

// HolderOf reads a holder from what IDs wrote.
func HolderOf(name, ids string) Holder {
	all := strings.Split(ids, ",")
	h := Holder{Name: name, Signs: all[0], Knows: all}
	if h.Signs == "" {
		h.Knows = all[1:]
	}
	return h
}

// Pace is how long a rotation waits where no holder can be asked.
type Pace struct {
	Settle time.Duration // until a changed keyring has reached everybody, at the least
	Life   time.Duration // from a ticket's minting until nobody accepts it: its own, and the skew of clocks
}

// Step is a rotation's next step.
type Step string

// The steps. Those that await change nothing.
const (
	AddRoot     Step = "add"          // a new root, verify-only
	AwaitKnown  Step = "await_known"  // until the holders behind know the root
	AwaitSettle Step = "await_settle" // until At, by when everybody has it
	SignWith    Step = "sign"         // with the root
	AwaitSigned Step = "await_signed" // until the holders behind sign with the root
	RetireRoot  Step = "retire"       // note that nobody signs with the root any more
	ReviveRoot  Step = "revive"       // a holder signs with a root that was retired: take that back
	AwaitLast   Step = "await_last"   // until At, when the root's last ticket has ended
	DropRoot    Step = "drop"         // the root
)

// Waits says whether a step changes nothing.
func (s Step) Waits() bool { return strings.HasPrefix(string(s), "await_") }

// Turn is what a rotation is at.
type Turn struct {
	Step   Step
	Root   string    // id; of AddRoot the one that signs now
	Behind []string  // names of the holders that it waits for
	At     time.Time // when it has waited long enough
}

// Next decides the next step, given all holders that may mint or verify at this moment. A
// root that is on its way out comes first: two rotations do not overlap.
func (k Keyring) Next(now time.Time, holders []Holder, p Pace) Turn {
	signing := slices.IndexFunc(k.roots, func(r Root) bool { return r.state == Signing })
	if signing > 0 {
		return retiring(k.roots[0], k.roots[signing], now, holders, p)
	}
	last := k.roots[len(k.roots)-1]
	t := Turn{Step: SignWith, Root: last.id, Behind: behind(holders, func(h Holder) bool { return slices.Contains(h.Knows, last.id) })}
	switch {
	case len(t.Behind) > 0:
		t.Step = AwaitKnown
	case last.state == Signing:
		t.Step = AddRoot
	case now.Before(last.since.Add(p.Settle)):
		t.Step, t.At = AwaitSettle, last.since.Add(p.Settle)
	}
	return t
}

// retiring brings a root out that signed before the one that does now.
func retiring(old, signing Root, now time.Time, holders []Holder, p Pace) Turn {
	t := Turn{Step: DropRoot, Root: old.id}
	still := behind(holders, func(h Holder) bool { return h.Signs == signing.id })
	settled, ended := signing.since.Add(p.Settle), old.since.Add(p.Life)
	switch {
	case len(still) > 0 && !old.since.IsZero():
		t.Step = ReviveRoot
	case len(still) > 0:
		t.Step, t.Root, t.Behind = AwaitSigned, signing.id, still
	case now.Before(settled):
		t.Step, t.Root, t.At = AwaitSettle, signing.id, settled
	case old.since.IsZero() || old.since.After(now):
		t.Step = RetireRoot
	case now.Before(ended):
		t.Step, t.At = AwaitLast, ended
	}
	return t
}

func behind(holders []Holder, done func(Holder) bool) (names []string) {
	for _, h := range holders {
		if !done(h) {
			names = append(names, h.Name)
		}
	}
	return names
}

// Take makes a step of a rotation that is not one of those that await. Fresh is the root of
// AddRoot.
func (k Keyring) Take(t Turn, fresh Root, now time.Time) (Keyring, error) {
	switch t.Step {
	case AddRoot:
		return k.Add(fresh, now)
	case SignWith:
		return k.Sign(t.Root, now)
	case RetireRoot:
		return k.Retire(t.Root, now)
	case ReviveRoot:
		return k.Retire(t.Root, time.Time{})
	case DropRoot:
		return k.Drop(t.Root)
	case AwaitKnown, AwaitSettle, AwaitSigned, AwaitLast:
	}
	return k, nil
}

// Equal says whether two keyrings are the same: roots, states and dates.
func (k Keyring) Equal(other Keyring) bool {
	return slices.EqualFunc(k.roots, other.roots, func(a, b Root) bool {
		return a.id == b.id && a.state == b.state && a.since.Equal(b.since) && bytes.Equal(*a.secret.open(), *b.secret.open())
	})
}

// Dated returns the keyring with a date for the roots that lack one: when it is not known
// since when a root is good for something, it is not before now.
func (k Keyring) Dated(now time.Time) Keyring {
	roots := k.Roots()
	for i := range roots {
		retired := roots[i].state == VerifyOnly && slices.ContainsFunc(roots[i:], func(r Root) bool { return r.state == Signing })
		if roots[i].since.IsZero() && !retired {
			roots[i].since = now
		}
	}
	return Keyring{roots}
}
