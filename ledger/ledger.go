// Package ledger keeps one host's reservations: memory promised from the yes until the
// boot redeems it, or its time to live.
//
// It holds what it is given: whether a need fits is decided before, in the same locked
// step, by package host. Each id has one record, at the highest generation seen; a lower
// generation is refused, a closed one is never opened again while it is remembered, and
// the total is the sum over the open records and nothing else.
//
// Worked: reserve (a, 7) for 128 MiB until 60 s; total 128 MiB. A duplicate frame changes
// nothing. Release (a, 7) closes it; total 0. The delayed duplicate of (a, 7) is refused
// until 120 s have passed; (a, 9) opens anew.
//
// Not safe for concurrent use: its owner holds one lock over check and reserve.
package ledger

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Instant is a reading of the host's own boot-time clock.
type Instant = time.Duration

// State is what became of a reservation.
type State uint8

// The states. All but Open are closed, for good.
const (
	Open State = iota
	Redeemed
	Released
	Lapsed
	Denied // asked and refused: a delayed duplicate of that ask must not open it
)

var stateNames = [...]string{"open", "redeemed", "released", "lapsed", "denied"}

// String returns the state's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Entry is one id's record.
type Entry struct {
	ID    string
	Gen   int64
	State State
	Need  gate.Bytes // promised, while open
	Until Instant    // lapses then unless renewed; once closed, forgotten then
	Ask   gate.Ask
}

// Verdict says whether a reservation may be opened.
type Verdict uint8

// The verdicts on (id, generation, until).
const (
	Fresh      Verdict = iota // may be opened if it fits
	Same                      // already open: the answer is yes again
	Superseded                // a higher generation was seen
	Closed                    // this generation was closed here
	Late                      // its until has passed on the way
)

// Ledger is the set of records. The zero value is not ready: use New.
type Ledger struct {
	ttl     time.Duration    // the longest that a reservation is promised for without a renewal
	entries map[string]Entry // id -> record
	total   gate.Bytes       // Σ need over the open ones
	cpu     int64            // Σ thousandths of a core over the open ones
	open    int
	due     Instant // no record falls due before this
}

// New returns an empty ledger whose reservations live for at most ttl.
func New(ttl time.Duration) *Ledger {
	return &Ledger{ttl: ttl, entries: map[string]Entry{}, due: never}
}

const never = Instant(1<<63 - 1)

// Total is the memory promised by the open reservations.
func (l *Ledger) Total() gate.Bytes { return l.total }

// CPUMilli is the processor time that the open reservations will want.
func (l *Ledger) CPUMilli() int64 { return l.cpu }

// Count is the number of open reservations.
func (l *Ledger) Count() int { return l.open }

// Due is the instant at which Advance next has something to do.
func (l *Ledger) Due() Instant { return l.due }

// Get returns the record of an id.
func (l *Ledger) Get(id string) (Entry, bool) {
	e, ok := l.entries[id]
	return e, ok
}

// Judge says whether (id, gen) may be opened until then.
func (l *Ledger) Judge(now Instant, id string, gen int64, until Instant) Verdict {
	e, known := l.entries[id]
	switch {
	case known && e.Gen > gen:
		return Superseded
	case known && e.Gen == gen && e.State == Open:
		return Same
	case known && e.Gen == gen:
		return Closed
	case until <= now:
		return Late
	}
	return Fresh
}

// Held is what the open record of an id promises: a higher generation replaces it, so it
// is room for that.
func (l *Ledger) Held(id string) gate.Bytes {
	if e, ok := l.entries[id]; ok && e.State == Open {
		return e.Need
	}
	return 0
}

// Reserve opens a record that Judge called Fresh, replacing a lower generation. No
// reservation is promised for longer than the ledger's time to live.
func (l *Ledger) Reserve(now Instant, e Entry) Entry {
	e.State = Open
	e.Until = min(e.Until, now+l.ttl)
	l.put(e)
	return e
}

// Deny remembers that (id, gen) was refused, closing a lower generation.
func (l *Ledger) Deny(now Instant, id string, gen int64) Entry {
	return l.close(now, Entry{ID: id, Gen: gen}, Denied)
}

// Renew lengthens an open reservation at exactly that generation, never shortens it.
func (l *Ledger) Renew(now Instant, id string, gen int64, until Instant) (Entry, bool) {
	e, ok := l.entries[id]
	if !ok || e.Gen != gen || e.State != Open {
		return e, false
	}
	e.Until = max(e.Until, min(until, now+l.ttl))
	l.put(e)
	return e, true
}

// Release closes (id, gen) and whatever was lower, even if it was never opened here: the
// Reserve that it overtook on the way must find it closed. It changes nothing when a
// higher generation was seen, or that one is closed already.
func (l *Ledger) Release(now Instant, id string, gen int64) (Entry, bool) {
	e, ok := l.entries[id]
	if ok && (e.Gen > gen || (e.Gen == gen && e.State != Open)) {
		return e, false
	}
	if !ok || e.Gen < gen {
		e = Entry{ID: id, Gen: gen}
	}
	return l.close(now, e, Released), true
}

// Redeem closes the open reservation (id, gen) in favour of a charge. Otherwise it tells
// the record that stands in the way; known is false when there is none.
func (l *Ledger) Redeem(now Instant, id string, gen int64) (e Entry, redeemed, known bool) {
	e, known = l.entries[id]
	if !known || e.Gen != gen || e.State != Open {
		return e, false, known
	}
	l.close(now, e, Redeemed)
	return e, true, true
}

// Advance closes what lapsed by now and forgets what was closed long enough ago. It
// appends the lapsed to out.
func (l *Ledger) Advance(now Instant, out []Entry) []Entry {
	if now < l.due {
		return out
	}
	l.due = never
	for id, e := range l.entries {
		switch {
		case now < e.Until:
			l.due = min(l.due, e.Until)
		case e.State == Open:
			out = append(out, l.close(now, e, Lapsed))
		default:
			delete(l.entries, id)
		}
	}
	return out
}

// Restore puts a record back as it was written down.
func (l *Ledger) Restore(e Entry) { l.put(e) }

// Each calls f with every record, in no order.
func (l *Ledger) Each(f func(Entry)) {
	for _, e := range l.entries {
		f(e)
	}
}

// close keeps the record for one time to live past its until, so that no frame that was
// sent while it was open can open it again.
func (l *Ledger) close(now Instant, e Entry, s State) Entry {
	e.State, e.Need, e.Until = s, 0, max(e.Until, now+l.ttl)+l.ttl
	e.Ask = gate.Ask{}
	l.put(e)
	return e
}

// put is the only place where the total and the count change.
func (l *Ledger) put(e Entry) {
	if old, ok := l.entries[e.ID]; ok && old.State == Open {
		l.total -= old.Need
		l.cpu -= old.Ask.CPUMilli
		l.open--
	}
	if e.State == Open {
		l.total += e.Need
		l.cpu += e.Ask.CPUMilli
		l.open++
	}
	l.entries[e.ID] = e
	l.due = min(l.due, e.Until)
}

// CheckInvariants proves that the totals are those of the set.
func (l *Ledger) CheckInvariants() error {
	var total gate.Bytes
	open := 0
	for id, e := range l.entries {
		if e.ID != id || e.Need < 0 {
			return fmt.Errorf("reservation %s: record of %s with need %d", id, e.ID, e.Need)
		}
		if e.State == Open {
			total, open = total.Add(e.Need), open+1
		}
		if e.Until < l.due {
			return fmt.Errorf("reservation %s: due at %v, before the ledger's next at %v", id, e.Until, l.due)
		}
	}
	if total != l.total || open != l.open {
		return fmt.Errorf("ledger says %s in %d, its records %s in %d", l.total, l.open, total, open)
	}
	return nil
}
