package observe

import (
	"cmp"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/learn"
)

// Learned is what runs of one configured size have shown: nobody says here what a sandbox was
// started from.
type Learned struct {
	ConfiguredMB int64      `json:"configured_mb"`
	Ended        int64      `json:"ended"`  // runs
	Enough       int64      `json:"enough"` // of so many something is learned
	ReserveMB    int64      `json:"reserve_mb,omitempty"`
	MeanMB       int64      `json:"mean_mb"`
	Runs         learn.Runs `json:"runs"` // so that the next observer goes on with it
}

// mostSizes bounds how many sizes are learned of; the first that were seen.
const mostSizes = 64

// learning is what an observer notes of runs.
type learning struct {
	runs map[gate.Bytes]*learn.Runs // configured size of stateless ones -> what was seen
	size map[string]gate.Bytes      // id -> that size, of those that ran at the last look
	last time.Time
}

// Resume takes over what an earlier observer had seen of runs.
func (o *Observer) Resume(r *Report) {
	for i := range r.Learned {
		l := &r.Learned[i]
		if runs := o.learned.of(gate.FromMiB(l.ConfiguredMB)); runs != nil {
			runs.Merge(&l.Runs)
		}
	}
}

// of returns what is noted of a size; nil when there are too many.
func (l *learning) of(size gate.Bytes) *learn.Runs {
	if l.runs[size] == nil {
		if len(l.runs) >= mostSizes {
			return nil
		}
		if l.runs == nil {
			l.runs = map[gate.Bytes]*learn.Runs{}
		}
		l.runs[size] = new(learn.Runs)
	}
	return l.runs[size]
}

// look notes what runs, and what has ended since the last look: peaks are those by then.
func (l *learning) look(found []sandbox, peaks map[string]gate.Bytes, now time.Time) {
	n := int64(1)
	if !l.last.IsZero() {
		n = int64(now.Sub(l.last) / time.Second)
	}
	if n > 0 {
		l.last = now
	}
	size := map[string]gate.Bytes{}
	for i := range found {
		s := &found[i]
		if s.from == "" || s.stateful {
			continue
		}
		size[s.id] = s.configured
		if runs := l.of(s.configured); runs != nil {
			runs.Sampled(s.held.Bytes, min(n, 60))
		}
	}
	for id, of := range l.size {
		if _, goesOn := size[id]; goesOn {
			continue
		}
		if runs := l.of(of); runs != nil {
			runs.Ended(peaks[id], 0)
		}
	}
	l.size = size
}

// rule is what a sandbox would be reserved by, had its size been learned.
func (l *learning) rule(prior gate.ReserveRule, s *sandbox) gate.ReserveRule {
	if runs := l.runs[s.configured]; runs != nil && runs.N() >= learn.Enough {
		prior.Learned = runs.Reserve(s.configured)
	}
	return prior
}

// list shows it, the largest size first.
func (l *learning) list() []Learned {
	var out []Learned
	for size, runs := range l.runs {
		one := Learned{ConfiguredMB: size.CeilMiB(), Ended: runs.N(), Enough: learn.Enough, MeanMB: runs.Mean().CeilMiB()}
		if one.Ended >= learn.Enough {
			one.ReserveMB = runs.Reserve(size).CeilMiB()
		}
		one.Runs.Merge(runs)
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Learned) int { return cmp.Compare(b.ConfiguredMB, a.ConfiguredMB) })
	return out
}

// any says whether something was learned of some size.
func (l *learning) any() bool {
	for _, runs := range l.runs {
		if runs.N() >= learn.Enough {
			return true
		}
	}
	return false
}
