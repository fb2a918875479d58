package density

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/workload"
	"github.com/plimsoll-project/plimsoll/learn"
)

// Options is what is played.
type Options struct {
	Runs, Memory           string // files of the runs that are played; none: the fitted model
	TrainRuns, TrainMemory string // files of those that are learned from; none: the other half
	HostMB, ConfiguredMB   int64
	Cohorts                []int         // sizes of batches, each played for an equal part of the time
	Seconds                int64         // of one host, for each policy
	Renew                  time.Duration // a host is empty again after so long
	AllAtOnce              bool          // a start takes no time, so that a batch starts in one second
	Seed                   uint64
	Jobs                   int
	Candidates             bool                    // other ways to learn a reserve, too
	Progress               func(done, total int64) // host-seconds; may be nil
}

// DefaultOptions are the target's: sandboxes of 4 GiB on hosts of 32, for more than a million
// host-seconds.
func DefaultOptions() Options {
	return Options{HostMB: 32 << 10, ConfiguredMB: 4 << 10, Cohorts: []int{1, 32, 74}, Seconds: 1_200_000, Renew: 6 * time.Hour, Seed: 1, Jobs: 1}
}

// Result is what was seen.
type Result struct {
	Source       string   `json:"source"`
	Seed         uint64   `json:"seed"`
	HostMB       int64    `json:"host_mb"`
	ConfiguredMB int64    `json:"configured_mb"`
	Cohorts      []int    `json:"cohorts"`
	RenewSeconds int64    `json:"renew_s"`
	AllAtOnce    bool     `json:"all_at_once"`
	Policies     []Policy `json:"policies"`
	Learned      []Lesson `json:"learned"`
	After30      *Early   `json:"after_30_runs,omitempty"` // nil: fewer than 30 to learn from
	Assumed      []string `json:"assumed"`
}

// Policy is one way to charge, over all that was played.
type Policy struct {
	Policy string `json:"policy"`
	Figures
	ByCohort []ByCohort `json:"by_cohort"`
}

// ByCohort is a policy's part that was played with batches of one size.
type ByCohort struct {
	Cohort int `json:"cohort"`
	Figures
}

// Lesson is what some runs taught and others were judged by.
type Lesson struct {
	TrainRuns  int     `json:"train_runs"`
	JudgedRuns int     `json:"judged_runs"`
	ReserveMB  int64   `json:"reserve_mb"`
	Predicted  float64 `json:"predicted_above"` // part of the runs that peak above the reserve
	Seen       float64 `json:"seen_above"`
	Learned    bool    `json:"learned"` // else it is the prior: the runs are too few
	Broken     bool    `json:"broken"`  // what the template itself makes of the judged runs
}

// Early is how dense it is after a class's first runs alone, over several choices of them.
type Early struct {
	Runs        int     `json:"runs"`
	Choices     int     `json:"choices"`
	LeastMB     int64   `json:"least_reserve_mb"`
	MostMB      int64   `json:"most_reserve_mb"`
	PerHost     float64 `json:"per_host"`
	LeastOfAll  float64 `json:"least_per_host"`
	OfFinal     float64 `json:"of_final"` // per_host by that of the learned policy
	LeastFinal  float64 `json:"least_of_final"`
	OverSeconds int64   `json:"over_physical_s"`
	HostSeconds int64   `json:"host_s"`
}

const (
	choices    = 12  // of the first runs of a class
	leastEarly = 600 // seconds that each of them is played for
)

// fold is what is learned from, and what is played.
type fold struct{ train, judged []workload.Run }

// input is what is played, and where it comes from.
type input struct {
	folds  []fold
	source string
}

// load gathers the runs and parts them.
func (o *Options) load() (input, error) {
	if o.Runs == "" {
		train, judged := workload.FittedParts(o.Seed)
		return input{[]fold{{train: train, judged: judged}}, "fitted model"}, nil
	}
	judged, err := workload.Read(o.Runs, o.Memory)
	if err != nil {
		return input{}, err
	}
	if o.TrainRuns != "" {
		train, err := workload.Read(o.TrainRuns, o.TrainMemory)
		return input{[]fold{{train: train, judged: judged}}, "files"}, err
	}
	if len(judged) < 2 {
		return input{}, fmt.Errorf("%s: one run alone cannot be parted into those to learn from and those to judge: give --train-runs and --train-memory", o.Runs)
	}
	a, b := workload.Halves(judged, o.Seed)
	return input{[]fold{{train: a, judged: b}, {train: b, judged: a}}, "files, each half judged by what the other taught"}, nil
}

// simulate plays everything.
func simulate(ctx context.Context, o Options, in input) (*Result, error) {
	policies := policiesOf(o)
	s := stage{Options: o, folds: in.folds}
	played, err := s.playAll(ctx, policies)
	if err != nil {
		return nil, err
	}
	r := &Result{Source: in.source, Seed: o.Seed, HostMB: o.HostMB, ConfiguredMB: o.ConfiguredMB, Cohorts: o.Cohorts, RenewSeconds: int64(o.Renew / time.Second), AllAtOnce: o.AllAtOnce, Assumed: assumptions(o, in.source)}
	for i, p := range policies {
		r.Policies = append(r.Policies, s.policy(p.name, played[i]))
		if p.name == learnedPolicy {
			r.Learned = s.lessons(played[i])
		}
	}
	r.After30 = s.early(r, played[len(policies)])
	return r, nil
}

// stage plays many hosts side by side, each for itself.
type stage struct {
	Options
	folds       []fold
	early30     []gate.Bytes // the reserve after each choice of first runs
	done, total atomic.Int64
}

// playAll returns the figures of every policy, fold by fold and in each by cohort; and at last
// those of the choices of first runs.
func (s *stage) playAll(ctx context.Context, policies []policy) ([][]Figures, error) {
	played := make([][]Figures, len(policies)+1)
	var plays []play
	for i, p := range policies {
		played[i] = make([]Figures, len(s.folds)*len(s.Cohorts))
		for _, f := range s.folds {
			rule := p.rule(f.train, s.configured())
			for _, cohort := range s.Cohorts {
				plays = append(plays, s.play(rule, p.mode, f.judged, cohort, s.Seconds/int64(len(played[i]))))
			}
		}
	}
	first := s.firstRuns()
	played[len(policies)] = make([]Figures, len(first))
	plays = append(plays, first...)
	for i := range plays {
		plays[i].Seed = s.Seed<<16 + uint64(i)
		s.total.Add(plays[i].Seconds)
	}
	flat := make([]Figures, len(plays))
	if err := s.side(ctx, plays, flat); err != nil {
		return nil, err
	}
	for i := range played {
		copy(played[i], flat)
		flat = flat[len(played[i]):]
	}
	return played, nil
}

func (s *stage) configured() gate.Bytes { return gate.FromMiB(s.ConfiguredMB) }

// reserve is what a rule makes of a sandbox here.
func (s *stage) reserve(rule gate.ReserveRule) gate.Bytes {
	return gate.Reserve(gate.Ask{Memory: s.configured(), Rule: rule}, gate.WorkingSet)
}

func (s *stage) play(rule gate.ReserveRule, mode gate.Mode, runs []workload.Run, cohort int, seconds int64) play {
	return play{
		Runs: runs, Mode: mode, Memory: gate.FromMiB(s.HostMB), Cohort: cohort,
		Ask:     gate.Ask{Class: "agent", Memory: s.configured(), Rule: rule},
		Seconds: max(seconds, 1), Renewed: max(int64(s.Renew/time.Second), 1), Boots: !s.AllAtOnce,
	}
}

// firstRuns are hosts that learned from the first runs of a class alone: none, where there are
// not so many to learn from.
func (s *stage) firstRuns() (plays []play) {
	folds := slices.DeleteFunc(slices.Clone(s.folds), func(f fold) bool { return len(f.train) < learn.Enough })
	if len(folds) == 0 {
		return nil
	}
	for i := range choices {
		f := folds[i%len(folds)]
		first := slices.Clone(f.train)
		workload.Shuffle(first, s.Seed+uint64(i)+1)
		rule := learnedRule(first[:learn.Enough], s.configured())
		s.early30 = append(s.early30, s.reserve(rule))
		cohort := s.Cohorts[(i/len(folds))%len(s.Cohorts)]
		plays = append(plays, s.play(rule, gate.WorkingSet, f.judged, cohort, max(s.Seconds/4/choices, leastEarly)))
	}
	return plays
}

// side plays side by side. What each sees does not depend on the others.
func (s *stage) side(ctx context.Context, plays []play, out []Figures) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(s.Jobs, 1))
	for i := range plays {
		group.Go(func() (err error) {
			out[i], err = plays[i].run(ctx, func(n int64) {
				if now := s.done.Add(n); s.Progress != nil {
					s.Progress(now, s.total.Load())
				}
			})
			return err
		})
	}
	return group.Wait()
}

func (s *stage) policy(name string, played []Figures) Policy {
	p := Policy{Policy: name}
	for i, cohort := range s.Cohorts {
		by := ByCohort{Cohort: cohort}
		for j := i; j < len(played); j += len(s.Cohorts) {
			by.add(played[j])
		}
		p.add(by.Figures)
		p.ByCohort = append(p.ByCohort, by)
	}
	return p
}

// lessons sets what each fold's runs predicted beside what was seen.
func (s *stage) lessons(played []Figures) (out []Lesson) {
	for i, f := range s.folds {
		var all Figures
		for _, one := range played[i*len(s.Cohorts) : (i+1)*len(s.Cohorts)] {
			all.add(one)
		}
		reserve := s.reserve(learnedRule(f.train, s.configured()))
		l := Lesson{TrainRuns: len(f.train), JudgedRuns: len(f.judged), ReserveMB: reserve.CeilMiB()}
		l.Learned = len(f.train) >= learn.Enough
		l.Broken = breaks(f.train, f.judged, s.configured())
		l.Predicted = shareAbove(f.train, reserve)
		if all.ended > 0 {
			l.Seen = float64(all.above) / float64(all.ended)
		}
		out = append(out, l)
	}
	return out
}

func shareAbove(runs []workload.Run, reserve gate.Bytes) float64 {
	n := 0
	for i := range runs {
		if runs[i].Peak > reserve {
			n++
		}
	}
	return float64(n) / float64(len(runs))
}

func (s *stage) early(r *Result, played []Figures) *Early {
	if len(played) == 0 {
		return nil
	}
	final := r.Policies[slices.IndexFunc(r.Policies, func(p Policy) bool { return p.Policy == learnedPolicy })].PerHost
	e := &Early{Runs: learn.Enough, Choices: len(played), LeastMB: slices.Min(s.early30).CeilMiB(), MostMB: slices.Max(s.early30).CeilMiB()}
	var all Figures
	e.LeastOfAll = played[0].PerHost
	for _, f := range played {
		all.add(f)
		e.LeastOfAll = min(e.LeastOfAll, f.PerHost)
	}
	e.PerHost, e.OverSeconds, e.HostSeconds = all.PerHost, all.OverPhysical, all.HostSeconds
	if final > 0 {
		e.OfFinal, e.LeastFinal = e.PerHost/final, e.LeastOfAll/final
	}
	return e
}
