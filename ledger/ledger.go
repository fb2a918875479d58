// Package ledger keeps one host's reservations: memory promised from the yes until the
// boot redeems it, or its time to live.
//
// It holds what it is given: whether a need fits is decided before, in the same locked
// step, by package host. Each id has one record, at the highest generation seen; a lower
// generation is refused, a closed one is never opened again while it is remembered, and
// the total is the sum over the open records and nothing else. The one exception is Reopen,
// for a sandbox that ended by itself: no frame leads there.
//
// Worked: reserve (a, 7) for 128 MiB until 60 s; total 128 MiB. A duplicate frame changes
// nothing. Release (a, 7) closes it; total 0. The delayed duplicate of (a, 7) is refused
// until 120 s have passed; (a, 9) opens anew.
//
// Not safe for concurrent use: its owner holds one lock over check and reserve.
package ledger

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/digest"
	"github.com/plimsoll-project/plimsoll/gate"
)

// Instant is a reading of the host's own boot-time clock.
type Instant = time.Duration

// State is what became of a reservation.
type State uint8

// The states. All but Open are closed, for good, unless Reopen says otherwise.
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

// Identity is whose a reservation, and the sandbox that it becomes, is.
type Identity struct {
	Consumer string `json:"consumer"`
	Key      string `json:"key"`
	Tenant   string `json:"tenant,omitempty"`
	Pool     string `json:"pool"`
	Class    string `json:"class"`
}

// Entry is one id's record.
type Entry struct {
	ID    string
	Gen   int64
	State State
	Need  gate.Bytes // promised, while open
	Other gate.Bytes // what that would be in the mode that the host is not in; only summed up
	Until Instant    // lapses then unless renewed; once closed, forgotten then
	Ask   gate.Ask
	Whose Identity // where this ledger is the only record of it; else the store knows

	Reopened bool // open for the next start of what was redeemed before
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
	ttl     time.Duration      // the longest that a reservation is promised for without a renewal
	records map[string]*record // id -> record
	due     agenda             // the same records, by when something is due of them
	spare   []*record          // forgotten ones, to be used again

	total gate.Bytes // Σ need over the open ones
	other gate.Bytes // Σ other over them
	cpu   int64      // Σ thousandths of a core over the open ones
	open  int
	again int        // re-opened ones among the open
	sum   digest.Sum // of the open ones that a store knows
	dims  []gate.Dim // Σ over the open ones of each dimension that is counted
}

// New returns an empty ledger whose reservations live for at most ttl. It sums the named
// dimensions of what is open.
func New(ttl time.Duration, dims ...string) *Ledger {
	l := &Ledger{ttl: ttl, records: map[string]*record{}, dims: make([]gate.Dim, len(dims))}
	for i, name := range dims {
		l.dims[i].Name = name
	}
	return l
}

const never = Instant(1<<63 - 1)

// Total is the memory promised by the open reservations.
func (l *Ledger) Total() gate.Bytes { return l.total }

// Other is what they would come to in the mode that the host is not in.
func (l *Ledger) Other() gate.Bytes { return l.other }

// CPUMilli is the processor time that the open reservations will want.
func (l *Ledger) CPUMilli() int64 { return l.cpu }

// Count is the number of open reservations.
func (l *Ledger) Count() int { return l.open }

// Reopened is the number of open reservations that were redeemed before.
func (l *Ledger) Reopened() int { return l.again }

// Digest sums up the open reservations that a store knows.
func (l *Ledger) Digest() digest.Sum { return l.sum }

// Dim is what the open reservations take of the i-th dimension given to New.
func (l *Ledger) Dim(i int) int64 { return l.dims[i].N }

// Due is the instant at which Advance next has something to do.
func (l *Ledger) Due() Instant {
	if len(l.due) == 0 {
		return never
	}
	return l.due[0].Until
}

// Get returns the record of an id.
func (l *Ledger) Get(id string) (Entry, bool) {
	if r := l.records[id]; r != nil {
		return r.Entry, true
	}
	return Entry{}, false
}

// Open returns the record of an id if it is open: a higher generation replaces it, so
// what it holds is room for that.
func (l *Ledger) Open(id string) (Entry, bool) {
	e, known := l.Get(id)
	if !known || e.State != Open {
		return Entry{}, false
	}
	return e, true
}

// Judge says whether (id, gen) may be opened until then.
func (l *Ledger) Judge(now Instant, id string, gen int64, until Instant) Verdict {
	r := l.records[id]
	switch {
	case r != nil && r.Gen > gen:
		return Superseded
	case r != nil && r.Gen == gen && r.State == Open:
		return Same
	case r != nil && r.Gen == gen:
		return Closed
	case until <= now:
		return Late
	}
	return Fresh
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
// Otherwise it tells the record that stands in the way, if there is one.
func (l *Ledger) Renew(now Instant, id string, gen int64, until Instant) (e Entry, renewed bool) {
	e, open := l.at(id, gen)
	if !open {
		return e, false
	}
	e.Until = max(e.Until, min(until, now+l.ttl))
	l.put(e)
	return e, true
}

// Restate changes what an open reservation promises beside what the host measures: of what
// boots where nobody redeems, the host's own figures have it already.
func (l *Ledger) Restate(id string, need, other gate.Bytes) {
	if e, open := l.Open(id); open {
		e.Need, e.Other = need, other
		l.put(e)
	}
}

// Release closes (id, gen) and whatever was lower, even if it was never opened here: the
// Reserve that it overtook on the way must find it closed. It changes nothing when a
// higher generation was seen, or that one is closed already.
func (l *Ledger) Release(now Instant, id string, gen int64) (e Entry, released bool) {
	e, known := l.Get(id)
	if known && (e.Gen > gen || (e.Gen == gen && e.State != Open)) {
		return e, false
	}
	if !known || e.Gen < gen {
		e = Entry{ID: id, Gen: gen}
	}
	return l.close(now, e, Released), true
}

// Redeem closes the open reservation (id, gen) in favour of a charge and returns it as it
// was: what it asked for is what the charge is made of. Otherwise it tells the record that
// stands in the way, if there is one.
func (l *Ledger) Redeem(now Instant, id string, gen int64) (e Entry, redeemed bool) {
	e, open := l.at(id, gen)
	if !open {
		return e, false
	}
	l.close(now, e, Redeemed)
	return e, true
}

// Reopen opens what was redeemed once more, for one time to live: the sandbox that it
// became has ended by itself, and its place is kept for the next start. Only the host's own
// sight of that end leads here. What was released, superseded, denied or has lapsed stays
// closed; of what was redeemed so long ago that it is forgotten, the caller has the sandbox.
func (l *Ledger) Reopen(now Instant, e Entry) (Entry, bool) {
	if old, known := l.Get(e.ID); known && (old.Gen > e.Gen || (old.Gen == e.Gen && old.State != Redeemed)) {
		return old, false
	}
	e.State, e.Until, e.Reopened = Open, now+l.ttl, true
	l.put(e)
	return e, true
}

// at returns the record of an id, and whether it is open at exactly that generation.
func (l *Ledger) at(id string, gen int64) (e Entry, open bool) {
	e, known := l.Get(id)
	return e, known && e.Gen == gen && e.State == Open
}

// Advance closes what lapsed by now and forgets what was closed long enough ago. It
// appends the lapsed to out, in the order in which they did.
func (l *Ledger) Advance(now Instant, out []Entry) []Entry {
	for len(l.due) > 0 && l.due[0].Until <= now {
		r := l.due[0]
		if r.State == Open {
			out = append(out, l.close(now, r.Entry, Lapsed))
		} else {
			l.forget(r)
		}
	}
	return out
}

// Restore puts a record back as it was written down.
func (l *Ledger) Restore(e Entry) { l.put(e) }

// Each calls f with every record, in no order.
func (l *Ledger) Each(f func(Entry)) {
	for _, r := range l.records {
		f(r.Entry)
	}
}

// close keeps the record for one time to live past its until, so that no frame that was
// sent while it was open can open it again.
func (l *Ledger) close(now Instant, e Entry, s State) Entry {
	e.State, e.Need, e.Other, e.Until = s, 0, 0, max(e.Until, now+l.ttl)+l.ttl
	e.Ask, e.Reopened = gate.Ask{}, false
	l.put(e)
	return e
}

// put is the only place where a record, and with it the sums, change.
func (l *Ledger) put(e Entry) {
	r := l.records[e.ID]
	if r == nil {
		r = l.blank()
		l.records[e.ID] = r
		r.Entry = e
		heap.Push(&l.due, r)
	} else {
		l.count(&r.Entry, -1)
		r.Entry = e
		heap.Fix(&l.due, r.at)
	}
	l.count(&r.Entry, +1)
}

// count adds what an open entry promises to the sums, or takes it out again.
func (l *Ledger) count(e *Entry, sign int64) {
	if e.State != Open {
		return
	}
	l.total += e.Need * gate.Bytes(sign)
	l.other += e.Other * gate.Bytes(sign)
	l.cpu += e.Ask.CPUMilli * sign
	l.open += int(sign)
	if Stored(e.ID) {
		l.sum.Add(e.Gen, sign)
	}
	if e.Reopened {
		l.again += int(sign)
	}
	for i := range l.dims {
		l.dims[i].N += e.Ask.Takes(l.dims[i].Name) * sign
	}
}

// CheckInvariants proves that the sums are those of the set, and that nothing falls due
// before the agenda says so.
func (l *Ledger) CheckInvariants() error {
	sums := Ledger{dims: slices.Clone(l.dims)}
	for i := range sums.dims {
		sums.dims[i].N = 0
	}
	for id, r := range l.records {
		if r.ID != id || r.Need < 0 || r.Other < 0 || (r.Reopened && r.State != Open) {
			return fmt.Errorf("reservation %s: record of %s, %s, with need %d, re-opened %v", id, r.ID, r.State, r.Need, r.Reopened)
		}
		if r.at >= len(l.due) || l.due[r.at] != r || r.Until < l.Due() {
			return fmt.Errorf("reservation %s: due at %v, not so on the agenda", id, r.Until)
		}
		sums.count(&r.Entry, +1)
	}
	if len(l.due) != len(l.records) {
		return fmt.Errorf("%d records, %d on the agenda", len(l.records), len(l.due))
	}
	if sums.sum != l.sum {
		return fmt.Errorf("ledger sums its open records up as %+v, they are %+v", l.sum, sums.sum)
	}
	if sums.other != l.other {
		return fmt.Errorf("ledger says %s in the other mode, its records %s", l.other, sums.other)
	}
	if sums.total != l.total || sums.open != l.open || sums.again != l.again || sums.cpu != l.cpu || !slices.Equal(sums.dims, l.dims) {
		return fmt.Errorf("ledger says %s, %d cpu, %v in %d, %d re-opened; its records %s, %d, %v in %d, %d",
			l.total, l.cpu, l.dims, l.open, l.again, sums.total, sums.cpu, sums.dims, sums.open, sums.again)
	}
	return nil
}
