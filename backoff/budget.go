package backoff

import "time"

// Budget bounds what one client adds to an outage, whatever the number of its callers: a slow start
// after it, and a trickle while it lasts.
//
//	a retry because nobody answered takes a token; without one it is put off (PutOff) and asks again
//	there are 10 tokens at most, and as many at first; one comes back each second, and two with each
//	answer of the gate, be it a yes, a place or a refusal
//
// Worked: of 1,000 callers that all lost their connection ten ask again, and then one a second. The
// first answer lets two ask, which bring four, then eight; so about a second after the end of an outage
// all of them are back. A refusal with an appointment takes no token: the gate itself said when.
//
// Counted in thousandths of a token, of which each millisecond brings one: whole numbers alone, so
// that every SDK decides alike.
//
// Not safe for concurrent use.
type Budget struct {
	milli int64
	at    time.Time // as of when
}

const (
	mostMilli  = 10_000 // a full budget
	tokenMilli = 1_000  // what a retry takes
	paidMilli  = 2_000  // what an answer brings
)

// NewBudget is full.
func NewBudget(now time.Time) *Budget { return &Budget{milli: mostMilli, at: now} }

// Take says whether a retry may be sent now that follows no answer.
func (b *Budget) Take(now time.Time) bool {
	b.refill(now)
	if b.milli < tokenMilli {
		return false
	}
	b.milli -= tokenMilli
	return true
}

// Answered tells of an answer of the gate.
func (b *Budget) Answered(now time.Time) {
	b.refill(now)
	b.add(paidMilli)
}

// refill adds what whole milliseconds brought; a clock that went back brings nothing.
func (b *Budget) refill(now time.Time) {
	passed := now.Sub(b.at).Milliseconds()
	if passed <= 0 {
		return
	}
	b.at = b.at.Add(time.Duration(passed) * time.Millisecond)
	b.add(passed)
}

func (b *Budget) add(milli int64) { b.milli = min(b.milli+min(milli, mostMilli), mostMilli) }

// PutOff is how long a retry without a token waits before it asks for one again: 0.5 to 1 s.
func PutOff(rand uint64) time.Duration { return putOff + part(putOff, rand) }

const putOff = 500 * time.Millisecond
