package hint

import (
	"math/bits"
	"time"
)

// Rate is how much of what callers wait for is freed, in thousandths of a unit a second. The
// unit is the caller's: slots, or MiB. Zero means that nothing was measured.
type Rate int64

// DefaultHalfLife weighs an event of half a minute ago half as much as one of now.
const DefaultHalfLife = 30 * time.Second

const (
	steps     = 64 // of decay in a half-life
	fraction  = 16 // binary places of the sum
	maxEvents = int64(1) << 40
)

// halvings are 2^(-1/2), 2^(-1/4) … 2^(-1/64) in 32 binary places: integers, so that every
// machine measures the same rate.
var halvings = [...]uint64{3037000500, 3611622603, 3938502376, 4112874773, 4202935003, 4248701965}

// Estimator measures a rate that forgets exponentially:
//
//	rate = Σ events × 2^(−age/half-life) ÷ ∫ 2^(−age/half-life) over the time watched
//
// The divisor makes it right from the beginning: after a second of one event each 100 ms it says
// 10 a second, not 10 spread over a half-life. Not safe for concurrent use.
type Estimator struct {
	step    time.Duration // a half-life has 64
	at      time.Duration // decayed up to here
	started bool
	sum     uint64 // decayed events, in 16 binary places
	unseen  uint64 // ns: the weight of the time before it was watched; decays from all to nothing
}

// NewEstimator makes an estimator; a half-life of zero takes the default.
func NewEstimator(halfLife time.Duration) *Estimator {
	if halfLife <= 0 {
		halfLife = DefaultHalfLife
	}
	e := &Estimator{step: max(halfLife/steps, 1)}
	e.unseen = e.weight()
	return e
}

// weight is ∫ 2^(−age/half-life) over all time: the half-life ÷ ln 2.
func (e *Estimator) weight() uint64 {
	hi, lo := bits.Mul64(uint64(e.step)*steps, 1442695041)
	w, _ := bits.Div64(hi, lo, 1_000_000_000)
	return w
}

// Observe counts events freed by now. The first call also starts the watch: call it with none
// at the start. Time never goes back; an earlier now counts as the latest.
func (e *Estimator) Observe(now time.Duration, events int64) {
	e.advance(now)
	e.sum += uint64(min(max(events, 0), maxEvents)) << fraction
	e.sum = min(e.sum, 1<<62)
}

// Rate returns the rate at now, and whether it is one: a second was watched and something came.
func (e *Estimator) Rate(now time.Duration) (Rate, bool) {
	e.advance(now)
	seen := e.weight() - e.unseen
	if seen < uint64(min(time.Second, 4*e.step)) {
		return 0, false
	}
	// sum/2^16 events × 10^3 (thousandths) × 10^9 (ns in a second) ÷ seen ns
	hi, lo := bits.Mul64(e.sum>>fraction, 1_000_000_000_000)
	lo, carry := bits.Add64(lo, (e.sum&(1<<fraction-1))*1_000_000_000_000>>fraction, 0)
	if hi += carry; hi >= seen {
		return Rate(maxEvents), true
	}
	r, _ := bits.Div64(hi, lo, seen)
	r = min(r, uint64(maxEvents))
	return Rate(r), r > 0
}

// Events is how many events the rate rests on; the older one is, the less it counts.
func (e *Estimator) Events() int64 { return int64(e.sum >> fraction) }

func (e *Estimator) advance(now time.Duration) {
	if !e.started {
		e.started, e.at = true, now
		return
	}
	k := int64((now - e.at) / e.step)
	if k <= 0 {
		return
	}
	e.at += time.Duration(k) * e.step
	e.sum, e.unseen = decay(e.sum, k), decay(e.unseen, k)
}

// decay multiplies x by 2^(−k/64).
func decay(x uint64, k int64) uint64 {
	if k >= 64*steps {
		return 0
	}
	x >>= k / steps
	for i, bit := 0, int64(steps/2); bit > 0; i, bit = i+1, bit/2 {
		if k&bit != 0 {
			hi, lo := bits.Mul64(x, halvings[i])
			x = hi<<32 | lo>>32
		}
	}
	return x
}
