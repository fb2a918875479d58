package learn

import (
	"encoding/json"
	"errors"
	"math"

	"github.com/plimsoll-project/plimsoll/gate"
)

// How a prediction is judged.
const (
	windowRuns = 200    // runs of one window at most; and no more than taught it
	shortRuns  = Enough // what is sudden is seen in so many, whatever was before them in the window
	// A count breaks its prediction when it is less likely by this in natural logarithms, if what
	// taught and what is judged are alike: 4.9 deviations of a large count. A template that stays
	// as it was breaks less than once in a million runs.
	strictness = 12
	// A window that ends with more than is likely by this does not teach yet: it goes on for up to
	// thrice as long, or runs of a class that changed would be what the next is judged by.
	doubtful = 2
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
}

// chance is what n of so many say about the next, who may be the first.
func chance(n, of int64) float64 { return float64(n+1) / float64(of+2) }

// add counts runs that were to do something with chance p each. Each product is rounded by
// itself, so that no machine fuses it with the sum: the same bits everywhere.
func (f *forecast) add(count, runs int64, p float64) {
	f.Count += count
	f.Expected += float64(float64(runs) * p)
}

// odd says how far a count is off its expectation for chance to explain it. The chances were
// read off as many runs as taught them, so they are doubtful themselves: how much likelier is
// what was seen of both if each has a chance of its own, than if they share one?
func (j *judgement) odd(f forecast) float64 {
	n, taught := float64(j.Runs), float64(max(j.Taught, 1))
	seen, predicted := float64(f.Count)/n, f.Expected/n
	shared := (float64(f.Count) + float64(predicted*taught)) / (n + taught)
	return n*surprise(seen, shared) + taught*surprise(predicted, shared)
}

// surprise is how much less likely a part of many is where the chance is p, in natural logarithms
// for each of them. Its last bits may differ between machines: it is only ever compared.
func surprise(part, p float64) float64 {
	return inLog(part, p) + inLog(1-part, 1-p)
}

func inLog(part, p float64) float64 {
	if part <= 0 || p <= 0 {
		return 0
	}
	return part * math.Log(part/p)
}

func (j *judgement) more(f forecast, than float64) bool {
	return float64(f.Count) > f.Expected && j.odd(f) > than
}

func (j *judgement) less(f forecast, than float64) bool {
	return float64(f.Count) < f.Expected && j.odd(f) > than
}

// higher says whether more runs than predicted peaked well or far above their reserve.
func (j *judgement) higher(than float64) bool { return j.more(j.Well, than) || j.more(j.Far, than) }

// over says whether the window has taught enough to begin another.
func (j *judgement) over() bool {
	most := min(windowRuns, j.Taught)
	return j.Runs >= 3*most || j.Runs >= most && !j.higher(doubtful)
}

// judge sets the runs that ended since the last step against what was predicted then. What
// breaks a prediction is runs well above their reserve: where all peak alike, half a MiB more
// would put all of them above.
func (s *state) judge(r *Runs) {
	fresh := r.judged.minus(s.Told)
	s.Told = r.judged
	if s.Reserve == 0 || fresh.Runs <= 0 || !fresh.sound() {
		return // nothing was predicted, or a host's runs were dropped
	}
	for _, j := range []*judgement{&s.Short, &s.Window, &s.Whole} {
		j.Runs += fresh.Runs
		j.Above.add(fresh.Above, fresh.Runs, s.Next.Above)
		j.Well.add(fresh.Well, fresh.Runs, s.Next.Well)
		j.Far.add(fresh.Far, fresh.Runs, s.Next.Far)
	}
	switch w := &s.Window; {
	case w.higher(strictness) || s.Short.higher(strictness):
		*s = state{At: s.At, Broken: true, Before: r.clone(), Told: s.Told, Whole: s.Whole}
	case w.over():
		if w.less(w.Above, strictness) { // it became smaller: what it was before teaches nothing more
			s.Before = s.Mark
		}
		s.mark(r)
	}
	if s.Short.Runs >= shortRuns {
		s.Short = judgement{Taught: s.Window.Taught}
	}
}

// chances are the parts of the next runs that will peak above a reserve, well and far above.
type chances struct {
	Above float64 `json:"above"`
	Well  float64 `json:"well"`
	Far   float64 `json:"far"`
}

// predict says what the reserve in force leads to, by the runs that taught this window: a class
// that changes would else teach, run by run, that it has always been so.
func (s *state) predict() chances {
	taught := s.Mark.since(&s.Before)
	return predict(&taught, s.Reserve)
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
	s.Short = s.Window
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
