// Package learn makes of a template's runs the reserve of its sandboxes: what each is charged
// for life, beside what is resident.
//
//	reserve = what two in five runs stayed within at their peak, one more at the configured size among them
//
// Until Enough runs ended it is the prior, the rule of the class. A learned reserve is never below
// 1/64 of what was configured (64 MiB of 4 GiB), is raised at once and lowered by at most 5 % an
// hour. Each run is judged by the reserve it stood under: when more of them peak well above it (by
// an eighth), or far (by as much again), than those predicted that were known when the window
// began, the template is broken: back to the prior, until Enough runs ended anew. A window has no
// more runs than taught it, nor more than 200.
//
// Worked: 30 runs of 4 GiB sandboxes, of which 12 peaked at up to 262 MiB and the 13th at 266.
// With one more at 4,096 MiB the 13th of 31 is the reserve, 266: 18 in 31 are predicted to peak
// above it at some moment, and take what the others leave. The prior was 1,024.
//
// It measures nothing, keeps nothing and decides about no sandbox. Nothing here is safe for
// concurrent use.
package learn

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Enough is how many runs must have ended before a reserve is learned.
const Enough = 30

// Quantile is which of the peaks is the reserve, in thousandths: docs/adr/0018 says why.
const Quantile = 400

// lowering is the most by which a reserve sinks in an hour, in hundredths.
const lowering = 5

// least is the least part of what was configured that is learned: one in so many.
const least = 64

// Reserve is what the runs say that a sandbox of a configured size needs. One more run, at
// that size, is counted among them: what has not been seen yet is possible. Runs that hold next
// to nothing do not make the next one free: it is never below 1/64 of what was configured.
func (r *Runs) Reserve(configured gate.Bytes) gate.Bytes {
	return max(r.PeakOf(Quantile, configured), configured/least)
}

// PeakOf is a quantile of the peaks, in thousandths, with one more run at the configured size.
func (r *Runs) PeakOf(permille int64, configured gate.Bytes) gate.Bytes {
	n := r.N()
	rank := ((n+1)*permille + 999) / 1000
	if rank > n {
		return configured
	}
	return min(r.peaks.ranked(max(rank, 1)), configured)
}

// Estimate is what a template's sandboxes are charged at least.
type Estimate struct {
	Reserve gate.Bytes
	Learned bool  // else it is the prior
	Runs    int64 // that ended, since it last broke
	Enough  int64 // of so many it is learned

	// Of the runs that ended under a learned reserve, the part that peaked above it: as it was
	// predicted when they ended, and as it was seen. Before there is any, what is predicted.
	Predicted float64
	Seen      float64
	Judged    int64 // how many runs those are

	Broken bool // it broke its prediction, and not enough runs have ended since
}

// Template is the learned reserve of one template over time. The zero value knows nothing.
type Template struct{ s state }

// state is what a Template remembers, as JSON has it.
type state struct {
	At      time.Duration `json:"at"`
	Reserve gate.Bytes    `json:"reserve,omitempty"` // learned; zero: the prior is in force
	Broken  bool          `json:"broken,omitempty"`
	Before  Runs          `json:"before,omitzero"` // no longer learned from
	Mark    Runs          `json:"mark,omitzero"`   // seen when the window began
	Told    tally         `json:"told,omitzero"`   // of the runs, as of the last step
	Next    chances       `json:"next,omitzero"`   // of the runs to come, under the learned reserve
	Window  judgement     `json:"window,omitzero"` // since the mark
	Short   judgement     `json:"short,omitzero"`  // the last of it
	Whole   judgement     `json:"whole,omitzero"`  // since it was learned
}

// Step takes the template to an instant with all that has been seen of it by then, and says
// what to reserve for a sandbox of a configured size. Time that runs backwards stands still.
func (t *Template) Step(now time.Duration, configured, prior gate.Bytes, r *Runs) Estimate {
	s := &t.s
	passed := max(now-s.At, 0)
	s.At = now
	s.judge(r)
	seen := r.since(&s.Before)
	if seen.N() >= Enough {
		s.settle(seen.Reserve(configured), passed, r)
		s.Next = s.predict()
	}
	return s.estimate(configured, prior, &seen)
}

// settle moves the learned reserve towards what is wanted now.
func (s *state) settle(want gate.Bytes, passed time.Duration, r *Runs) {
	if s.Reserve == 0 { // the prior is no estimate: nothing is lowered from it
		s.Reserve, s.Broken = want, false
		s.Whole = judgement{}
		s.mark(r)
		return
	}
	s.Reserve = max(want, lowered(s.Reserve, passed))
}

// lowered is a reserve that sank for so long.
func lowered(b gate.Bytes, passed time.Duration) gate.Bytes {
	for ; passed >= time.Hour && b > 0; passed -= time.Hour {
		b = b.Scale(100-lowering, 100)
	}
	return b.Sub(b.Scale(lowering*int64(passed), 100*int64(time.Hour)))
}

func (s *state) estimate(configured, prior gate.Bytes, seen *Runs) Estimate {
	e := Estimate{
		Reserve: min(prior, configured), Learned: s.Reserve > 0, Runs: seen.N(), Enough: Enough,
		Broken: s.Broken, Judged: s.Whole.Runs,
	}
	if e.Learned {
		e.Reserve = min(gate.FromMiB(s.Reserve.CeilMiB()), configured)
	}
	e.Predicted = predict(seen, e.Reserve).Above
	if e.Judged > 0 {
		e.Predicted, e.Seen = s.Whole.Above.Expected/float64(e.Judged), share(s.Whole.Above.Count, e.Judged)
	}
	return e
}
