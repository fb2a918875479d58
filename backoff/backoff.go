// Package backoff says when a refused caller asks again, and when it stops: the state machine
// inside the SDK.
//
// It decides on a status, a hint and a random number. It does not sleep, send, or read a clock.
//
//	window = min(cap, base × 2^attempt), shortened to what the deadline leaves
//	delay  = hint + a random part of the window; without a hint the random part alone (full jitter)
//
// Worked: third refusal, hint 2 s: the window is 0.25 s × 2² = 1 s, so the delay is from 2 to 3 s.
// Never below the hint, since the server said when its room is; never exactly it, since fifty
// callers may have been told the same. A caller whose hint lies beyond its deadline gives up at
// once: its work is waiting, not failed.
//
// A Backoff belongs to one request: not safe for concurrent use.
package backoff

import (
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Policy is how patient a caller is; the zero value takes every default.
type Policy struct {
	Base     time.Duration // the first window; 0.25 s
	Cap      time.Duration // the widest window; 8 s
	Deadline time.Duration // from the first try to the last; 90 s
}

func (p Policy) withDefaults() Policy {
	if p.Base <= 0 {
		p.Base = 250 * time.Millisecond
	}
	if p.Cap <= 0 {
		p.Cap = 8 * time.Second
	}
	if p.Deadline <= 0 {
		p.Deadline = 90 * time.Second
	}
	return p
}

// Outcome is how a try ended.
type Outcome struct {
	Status     int    // of HTTP; 0 when the connection was lost or never made
	RetryMS    int64  // retry_after_ms of the body; 0: none. It goes before the header
	RetryAfter string // the Retry-After header: seconds or an HTTP date
}

// Verdict is what to do after a try.
type Verdict uint8

const (
	// Retry after the delay.
	Retry Verdict = iota
	// Stop because asking again cannot help: it is not a status of "not now".
	Stop
	// OutOfPatience because the deadline has come, or lies before the hint. Park the work as
	// waiting; do not write it down as failed.
	OutOfPatience
)

// Backoff is one request's tries so far.
type Backoff struct {
	policy  Policy
	start   time.Time
	attempt int
}

// New starts a request at now.
func New(p Policy, now time.Time) *Backoff { return &Backoff{policy: p.withDefaults(), start: now} }

// Attempts counts the refusals so far.
func (b *Backoff) Attempts() int { return b.attempt }

// Retryable says whether a status is a tempo: 502, 503, 504, or no answer at all. A 4xx is the
// caller's to change, 429 too: it never means capacity here.
func Retryable(status int) bool {
	return status == 0 || status == 502 || status == 503 || status == 504
}

// Next takes the outcome of a try that ended at now and says how long to wait before another.
// rand is a fresh random number for each call.
func (b *Backoff) Next(now time.Time, o Outcome, rand uint64) (time.Duration, Verdict) {
	if !Retryable(o.Status) {
		return 0, Stop
	}
	left := b.policy.Deadline - now.Sub(b.start)
	hint, _ := Hint(o, now)
	if left <= 0 || hint >= left || b.crowds(left-hint) {
		return 0, OutOfPatience
	}
	window := min(b.window(), left-hint)
	b.attempt++
	return hint + part(window, rand), Retry
}

// crowds says that too little patience is left for another try: windows that shrink with it
// would put ever more tries into its last moments.
func (b *Backoff) crowds(left time.Duration) bool { return b.attempt > 0 && left < b.policy.Base }

func (b *Backoff) window() time.Duration {
	w := b.policy.Base
	for range b.attempt {
		if w >= b.policy.Cap/2 {
			return b.policy.Cap
		}
		w *= 2
	}
	return min(w, b.policy.Cap)
}

// part is a random part of a window, from nothing up to all of it.
func part(window time.Duration, rand uint64) time.Duration {
	hi, _ := bits.Mul64(uint64(window)+1, rand)
	return time.Duration(hi)
}

// farthest is the longest hint that is told from another; all beyond are out of any patience.
const farthest = 24 * time.Hour

// Away is how long a waiter in a line stays away before it holds on for its turn, in a call that
// is held for up to hold: until the server wants it back, but not into the last hold of its patience.
// Its place is kept meanwhile.
func Away(pollAfter, left, hold time.Duration) time.Duration {
	return max(min(pollAfter, left-hold), 0)
}

// Hint is how long the server asked to wait: retry_after_ms, else Retry-After in seconds, else as
// a date judged by now. A hint in the past, or one that cannot be read, is none.
func Hint(o Outcome, now time.Time) (time.Duration, bool) {
	if o.RetryMS > 0 {
		return time.Duration(min(o.RetryMS, farthest.Milliseconds())) * time.Millisecond, true
	}
	v := strings.Trim(o.RetryAfter, " \t")
	if v == "" {
		return 0, false
	}
	if strings.Trim(v, "0123456789") == "" {
		return seconds(v)
	}
	at, ok := date(v)
	if !ok || !at.After(now) {
		return 0, false
	}
	return min(at.Sub(now), farthest), true
}

func seconds(digits string) (time.Duration, bool) {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(farthest/time.Second) {
		return farthest, true // more digits than an int64 has
	}
	return time.Duration(n) * time.Second, n > 0
}

// date reads the three forms of an HTTP date (RFC 9110, 5.6.7); all of them are in GMT.
func date(v string) (time.Time, bool) {
	for _, form := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if at, err := time.Parse(form, v); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
