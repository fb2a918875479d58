// Package hint makes appointments: how long until a caller that was told "not now" should come
// back, from its own place and the measured rate of what it waits for.
//
// It decides when, not whether: an appointment reserves nothing, and a caller that comes early
// or late is judged as any other. It keeps no list of callers.
//
//	t           = (ahead + own × (½ + u/2)) ÷ rate, u from [0, 1): a moment in the caller's own slot
//	appointment = t, bent into (min, max) so that it is never below min, never above max, and the
//	              order and the gaps between callers survive
//
// Worked: 10 slots a second are freed and 40 callers are ahead; it needs one slot. Its own slot
// begins at 40 ÷ 10 = 4 s and lasts 0.1 s; it is told a moment from 4.05 to 4.1 s. The next
// caller is told one from 4.15 to 4.2 s: one hint for all would bring the herd back as one wave.
// What is said is in milliseconds, and who asks later and is told less may come to the same: a Desk
// gives each millisecond away once.
//
// Functions and keys may be used from any goroutine; Estimator, Book and Desk have one owner each
// and are not safe for concurrent use.
package hint

import (
	"math"
	"math/bits"
	"time"
)

// Bounds are what an appointment lies between.
type Bounds struct {
	Min     time.Duration // never sooner: it would only be asked again
	Max     time.Duration // never later: by then the rate is another
	Unknown time.Duration // how long one ask is taken to wait where no rate was measured
}

// DefaultBounds are half a second to a minute, two seconds an ask where nothing is known.
func DefaultBounds() Bounds {
	return Bounds{Min: 500 * time.Millisecond, Max: time.Minute, Unknown: 2 * time.Second}
}

// RefusedBounds are those of who was refused: up to a minute and a half, which is how patient the SDK is
// unless it is told. Told more it would give up at once.
func RefusedBounds() Bounds {
	b := DefaultBounds()
	b.Max = 90 * time.Second
	return b
}

// LineBounds are those of who holds a place in a line: up to ten minutes, since its turn follows
// from the places before its own. A shorter bound would call it long before that, again and again.
// A place by the book is a guess: many who were refused never come back.
func LineBounds() Bounds {
	b := DefaultBounds()
	b.Max = 10 * time.Minute
	return b
}

// Place is where a caller stands, in the units of the rate.
type Place struct {
	Ahead int64 // what is freed before its turn goes to others
	Own   int64 // what it needs itself: one slot, or its MiB
}

// InQueue is the place of a waiter for one slot: position 1 is next.
func InQueue(position int64) Place { return Place{Ahead: max(position-1, 0), Own: 1} }

const (
	maxAhead = int64(1) << 40
	maxOwn   = int64(1) << 30
)

// Appointment returns how long until the caller should come back. rand spreads callers within
// their own slots; a later place always gets a later moment.
func Appointment(p Place, r Rate, b Bounds, rand uint64) time.Duration {
	ahead, own := min(max(p.Ahead, 0), maxAhead), min(max(p.Own, 1), maxOwn)
	// In 17 binary places: ahead + own/2 + own × u/2, with u of 16 bits.
	at := uint64(ahead)<<17 + uint64(own)<<16 + uint64(own)*(rand>>48)
	return b.bend(wait(at, uint64(own), r, b.Unknown))
}

// wait is the time until an amount (in 17 binary places) is freed.
func wait(at, own uint64, r Rate, unknown time.Duration) time.Duration {
	per, divisor := uint64(1_000_000_000_000), uint64(max(r, 0))<<17 // ns × thousandths
	if r <= 0 {
		per, divisor = uint64(max(unknown, time.Millisecond)), own<<17
	}
	hi, lo := bits.Mul64(at, per)
	if hi >= divisor {
		return math.MaxInt64
	}
	ns, _ := bits.Div64(hi, lo, divisor)
	return time.Duration(min(ns, math.MaxInt64))
}

// bend maps [0, ∞) into [min, max], strictly rising: straight up to twice min from min itself,
// then as it is, then from half of max ever slower towards max.
func (b Bounds) bend(t time.Duration) time.Duration {
	lowest := max(b.Min, time.Millisecond)
	highest := max(b.Max, 2*lowest)
	low := min(2*lowest, lowest+(highest-lowest)/2)
	high := max(low, highest/2)
	switch {
	case t < low:
		return lowest + mulDiv(t, low-lowest, low)
	case t <= high:
		return t
	}
	return highest - mulDiv(high, highest-high, t)
}

// mulDiv is a × b ÷ c without overflow, for c above zero and a or b at most c.
func mulDiv(a, b, c time.Duration) time.Duration {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return time.Duration(q)
}

// PollAfter is when a waiter should call attempt, which is then held for up to longPoll: so that
// the middle of the hold is the appointment, and at once where the hold reaches that far.
//
// Who is away hears of nothing, and its slot may stay free meanwhile. So it is back early by two
// standard deviations of when that many slots are freed at random, which is 2/√position of
// the wait, and by a quarter of it in any case, for the rate may rise. The first few stay.
// Nobody is away for two minutes: what is longer than a minute and a half is bent below that, so
// that many who were told at once do not come back at once.
func PollAfter(position int64, appointment, longPoll time.Duration) time.Duration {
	quarters := time.Duration(0)
	for _, least := range [...]int64{8, 16, 64} {
		if position >= least {
			quarters++
		}
	}
	away := max(min(appointment-longPoll/2, appointment/4*quarters), 0)
	if away <= longAway {
		return away
	}
	last := longestAway - longAway
	return longestAway - mulDiv(last, last, away-longAway+last)
}

const (
	longAway    = 90 * time.Second
	longestAway = 2 * time.Minute
)

// Seconds is a wait in whole seconds, rounded up and at least one: the Retry-After header.
func Seconds(d time.Duration) int64 { return max(ceil(d, time.Second), 1) }

// Millis is a wait in whole milliseconds, rounded up and at least one: retry_after_ms.
func Millis(d time.Duration) int64 { return max(ceil(d, time.Millisecond), 1) }

func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// Book gives places to callers that hold none, in refuse mode: each is put behind those refused
// before it, and what was freed since has served the first of them. Who is told less than its place
// is worth, and comes before its turn, must not be put there twice. Not safe for concurrent use.
type Book struct {
	at    time.Duration
	ahead uint64 // thousandths of a unit promised and not yet due
}

// Place returns the place of one more caller at now.
func (k *Book) Place(now time.Duration, own int64, r Rate) Place {
	if now > k.at {
		hi, lo := bits.Mul64(uint64(now-k.at), uint64(max(r, 0)))
		served := uint64(math.MaxUint64)
		if hi < 1_000_000_000 {
			served, _ = bits.Div64(hi, lo, 1_000_000_000)
		}
		k.ahead -= min(k.ahead, served)
		k.at = now
	}
	own = min(max(own, 1), maxOwn)
	p := Place{Ahead: int64(k.ahead / 1000), Own: own}
	k.ahead = min(k.ahead+uint64(own)*1000, uint64(maxAhead)*1000)
	return p
}

// Desk makes the appointments for what one pool frees. No two callers are told the same moment, for as
// long as there is a millisecond for each near enough to its turn. Not safe for concurrent use.
type Desk struct {
	freed  *Estimator
	looked time.Duration // when it last heard what was freed
	book   Book
	seats  seats
}

// NewDesk opens a desk, which measures from now on.
func NewDesk(now time.Duration) *Desk {
	d := &Desk{freed: NewEstimator(DefaultHalfLife), looked: now}
	d.freed.Observe(now, 0)
	return d
}

// Freed counts slots that were freed by now; call it with none where nothing was.
func (d *Desk) Freed(now time.Duration, slots int64) {
	d.freed.Observe(now, slots)
	d.looked = max(d.looked, now)
}

// Turn is in how long the turn of a position in the line comes, where 1 is next.
func (d *Desk) Turn(now time.Duration, position int64, rand uint64) time.Duration {
	b := LineBounds()
	return d.seat(now, Appointment(InQueue(position), d.rate(), b, rand), b)
}

// Refused is in how long a caller that holds no place should come back, and in how long its turn comes,
// which is behind those who were refused before it, and may be farther off. left is how far off its turn
// was when it comes before that: it keeps that turn, for the book counts on it already. Whoever
// comes when its turn is over, or for the first time (left is zero), gets another.
func (d *Desk) Refused(now, left time.Duration, rand uint64) (in, turn time.Duration) {
	b := RefusedBounds()
	if left <= 0 {
		rate := d.rate()
		left = Appointment(d.book.Place(now, 1, rate), rate, Bounds{Max: farthest, Unknown: b.Unknown}, rand)
	}
	in = d.seat(now, b.bend(left), b)
	return in, max(in, left)
}

// farthest is a turn that nobody will wait for.
const farthest = 24 * time.Hour

// rate is what is freed. What was freed since it last heard is not known: to take that for nothing would
// have the rate fall by a tenth within five seconds.
func (d *Desk) rate() Rate {
	rate, _ := d.freed.Rate(d.looked)
	return rate
}

// seat is a wait for a moment of its own, near a turn.
func (d *Desk) seat(now, turn time.Duration, b Bounds) time.Duration {
	near := max(turn/nearTurn, b.Min)
	return d.seats.take(now, turn, max(turn-near, b.Min), min(turn+near, b.Max))
}

// nearTurn is the part of a wait by which it may be longer or shorter, for a moment of its own.
const nearTurn = 8

// Soon is when a caller should come back who waits for nothing that is measured.
func (d *Desk) Soon(now time.Duration, rand uint64) time.Duration {
	b := DefaultBounds()
	return d.seats.take(now, Appointment(InQueue(1), 0, b, rand), b.Min, soonest*b.Unknown)
}

// soonest bounds what is told to very many at once: one a millisecond, for eight seconds.
const soonest = 4

// enough events are a rate that is off by a quarter at most, as a rule.
const enough = 16

// PollAfter is PollAfter of a turn that was just told, where enough was seen for that: nobody is
// sent away on a guess.
func (d *Desk) PollAfter(now time.Duration, position int64, turn, longPoll time.Duration) time.Duration {
	if d.freed.Events() < enough {
		return 0
	}
	away := PollAfter(position, turn, longPoll)
	if away == 0 {
		return 0
	}
	near := away / nearTurn
	return d.seats.take(now, away, away-near, min(away+near, longestAway))
}
