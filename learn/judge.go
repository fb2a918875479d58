package learn

import (
	"encoding/json"
	"errors"

	"github.com/plimsoll-project/plimsoll/gate"
)

// How a prediction is judged.
const (
	windowRuns = 200 // runs of one window
	// A count breaks its prediction when t² > strictness × (variance + t/6), where t is what it
	// is above its expectation: 4.5 deviations of a large count, and more of a small one, whose
	// tail is thicker. A template that stays as it was breaks less than once in a million runs.
	strictness = 20
)

// judgement sets the runs that ended under a learned reserve against what was predicted.
type judgement struct {
	Runs   int64    `json:"runs"`
	Taught int64    `json:"taught"` // how many runs had taught the prediction when it began
	Above  forecast `json:"above"`  // peaked above their reserve
	Well   forecast `json:"well"`   // by more than an eighth
	Far    forecast `json:"far"`    // by more than it is
}

// forecast is how many runs did something, and how many were expected to.
type forecast struct {
	Count    int64   `json:"count"`
	Expected float64 `json:"expected"`
	Variance float64 `json:"variance"` // of the count about that, were the chances known
}

// chance is what n of so many say about the next, who may be the first.
func chance(n, of int64) float64 { return float64(n+1) / float64(of+2) }

// add counts runs that were to do something with chance p each. Each product is rounded by
// itself, so that no machine fuses it with the sum: the same bits everywhere.
func (f *forecast) add(count, runs int64, p float64) {
	f.Count += count
	f.Expected += float64(float64(runs) * p)
	f.Variance += float64(float64(runs) * float64(p*(1-p)))
}

// odd says whether a count that is t off its expectation is more than chance explains. The
// chances were read off as many runs as taught them, so they are doubtful themselves.
func (j *judgement) odd(f forecast, t float64) bool {
	v := float64(f.Variance * (1 + float64(j.Runs)/float64(max(j.Taught, 1))))
	return t > 0 && float64(t*t) > float64(strictness*(v+float64(t/6)))
}

func (j *judgement) more(f forecast) bool { return j.odd(f, float64(f.Count)-f.Expected) }
func (j *judgement) less(f forecast) bool { return j.odd(f, f.Expected-float64(f.Count)) }

// judge sets the runs that ended since the last step against what was predicted then. What
// breaks a prediction is runs well above their reserve: where all peak alike, half a MiB more
// would put all of them above.
func (s *state) judge(r *Runs) {
	fresh := r.judged.minus(s.Told)
	s.Told = r.judged
	if s.Reserve == 0 || fresh.Runs <= 0 || !fresh.sound() {
		return // nothing was predicted, or a host's runs were dropped
	}
	for _, j := range []*judgement{&s.Window, &s.Whole} {
		j.Runs += fresh.Runs
		j.Above.add(fresh.Above, fresh.Runs, s.Next.Above)
		j.Well.add(fresh.Well, fresh.Runs, s.Next.Well)
		j.Far.add(fresh.Far, fresh.Runs, s.Next.Far)
	}
	switch w := &s.Window; {
	case w.more(w.Well) || w.more(w.Far):
		*s = state{At: s.At, Broken: true, Before: r.clone(), Told: s.Told, Whole: s.Whole}
	case w.Runs < windowRuns:
	default:
		if w.less(w.Above) { // it became smaller: what it was before teaches nothing more
			s.Before = s.Mark
		}
		s.mark(r)
	}
}

// chances are the parts of the next runs that will peak above a reserve, well and far above.
type chances struct {
	Above float64 `json:"above"`
	Well  float64 `json:"well"`
	Far   float64 `json:"far"`
}

// predict reads the chances of a reserve off what was seen.
func predict(seen *Runs, reserve gate.Bytes) chances {
	n := seen.N()
	return chances{
		Above: chance(seen.peaks.above(reserve), n),
		Well:  chance(seen.peaks.above(wellAbove(reserve)), n),
		Far:   chance(seen.peaks.above(farAbove(reserve)), n),
	}
}

func (c chances) sound() bool {
	for _, p := range []float64{c.Above, c.Well, c.Far} {
		if p < 0 || p > 1 {
			return false
		}
	}
	return true
}

// mark begins a window.
func (s *state) mark(r *Runs) {
	seen := r.since(&s.Before)
	s.Mark, s.Window = r.clone(), judgement{Taught: seen.N()}
}

var errState = errors.New("template: a reserve, a chance or a tally that cannot be")

// MarshalJSON writes all that a restart needs.
func (t Template) MarshalJSON() ([]byte, error) { return json.Marshal(t.s) }

// UnmarshalJSON reads it back.
func (t *Template) UnmarshalJSON(text []byte) error {
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if s.Reserve < 0 || !s.Told.sound() || !s.Next.sound() {
		return errState
	}
	t.s = s
	return nil
}
