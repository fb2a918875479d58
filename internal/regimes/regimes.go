package regimes

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/report"
)

// Options is what is played.
type Options struct {
	Runs, Memory string // files of the runs; none: the fitted model
	Arrivals     string // file of the creates; none: they are drawn
	Hosts        int
	HostMB       int64
	ConfiguredMB int64   // of the sandboxes that are drawn, and of those that the runs are of
	Hours        float64 // 0: as long as the file of arrivals
	Load         float64 // sandboxes that are asked for per host, on average, if all came
	Batched      bool    // drawn in batches of one tenant's, else singles
	Alike        bool    // those of a batch live the same run
	Tenants      int
	Quota        int64 // of each tenant, in sandboxes; 0: twice an even part
	Patience     time.Duration
	Seed         uint64
	Jobs         int
	Progress     func(done, total int64) // host-seconds; may be nil
}

// DefaultOptions are agent sandboxes of 4 GiB on hosts of 32, of which more are asked for than fit.
func DefaultOptions() Options {
	return Options{
		Hosts: 10, HostMB: 32 << 10, ConfiguredMB: 4 << 10, Hours: 2, Load: 150,
		Tenants: 20, Patience: 90 * time.Second, Seed: 1, Jobs: 1,
	}
}

// Result is what was seen.
type Result struct {
	Source       string   `json:"source"`
	Seed         uint64   `json:"seed"`
	Hosts        int      `json:"hosts"`
	HostMB       int64    `json:"host_mb"`
	ConfiguredMB int64    `json:"configured_mb"`
	Hours        float64  `json:"hours"`
	Load         float64  `json:"load"` // sandboxes that would live per host, on average, if all came
	Batched      bool     `json:"batched"`
	Alike        bool     `json:"alike"`
	Tenants      int      `json:"tenants"`
	Quota        int64    `json:"quota"`
	PatienceS    float64  `json:"patience_s"`
	TrainRuns    int      `json:"train_runs"`
	PriorMB      int64    `json:"prior_reserve_mb"`
	LearnedMB    int64    `json:"learned_reserve_mb"`
	Assumed      []string `json:"assumed"`
	Regimes      []Row    `json:"regimes"`
	Sensitivity  []Row    `json:"sensitivity"` // without quotas, at other loads
	Together     []Row    `json:"together"`    // in batches that peak together
}

// Row is one regime.
type Row struct {
	Regime string  `json:"regime"`
	Quota  bool    `json:"quota"`
	Load   float64 `json:"load"`
	Figures
}

// factors are the loads beside the one that was asked for, as parts of it.
var factors = []float64{0.7, 0.8, 0.9, 1.1}

func (o *Options) span() time.Duration {
	return time.Duration(o.seconds()) * time.Second
}

func (o *Options) seconds() int { return int(math.Round(o.Hours * 3600)) }

// quota is that of each tenant.
func (o *Options) quota(load float64) int64 {
	if o.Quota > 0 {
		return o.Quota
	}
	return max(int64(math.Ceil(2*load*float64(o.Hosts)/float64(o.Tenants))), 1)
}

// stage plays fleets side by side, each for itself.
type stage struct {
	Options
	in          input
	load        float64 // as it is, also where it follows from a file
	limit       int64   // a tenant's quota
	done, total atomic.Int64
}

// simulate plays everything.
func simulate(ctx context.Context, o Options, in input) (*Result, error) {
	s := &stage{Options: o, in: in}
	same := s.in.creates(&o, 1)
	s.load = s.loadOf(same)
	s.limit = o.quota(s.load)
	var plays []play
	var rows []Row
	add := func(r regime, creates []create, quota int64, load float64) {
		plays = append(plays, s.play(r, creates, quota))
		rows = append(rows, Row{Regime: r.name, Quota: quota > 0, Load: round(load)})
	}
	for _, r := range regimesAll() {
		add(r, same, 0, s.load)
		add(r, same, s.limit, s.load)
	}
	main := len(rows)
	for _, factor := range factors {
		creates := s.in.creates(&o, factor)
		for _, r := range regimesAll() {
			add(r, creates, 0, factor*s.load)
		}
	}
	loads := len(rows)
	if alike := s.together(); alike != nil {
		for _, r := range regimesAll() {
			add(r, alike, 0, s.load)
			add(r, alike, s.limit, s.load)
		}
	}
	if err := s.side(ctx, plays, rows); err != nil {
		return nil, err
	}
	exceed(rows[:loads])
	exceed(rows[loads:])
	return s.result(rows[:main], rows[main:loads], rows[loads:]), nil
}

// together are creates in batches that peak together; nil, where that is what is played anyway.
func (s *stage) together() []create {
	if s.Alike {
		return nil
	}
	o := s.Options
	o.Alike, o.Batched = true, s.in.arrivals == nil
	return s.in.creates(&o, 1)
}

func round(load float64) float64 { return math.Round(load*1000) / 1000 }

// loadOf is how many sandboxes would live per host, on average, if all came.
func (s *stage) loadOf(creates []create) float64 {
	if s.in.arrivals == nil {
		return s.Load
	}
	lived, end := 0, s.seconds()
	for i := range creates {
		lived += min(creates[i].life.Seconds, end-int(creates[i].at/time.Second))
	}
	return float64(lived) / float64(end) / float64(s.Hosts)
}

func (s *stage) play(r regime, creates []create, quota int64) play {
	configured := gate.FromMiB(s.ConfiguredMB)
	return play{
		regime: r, quota: quota, creates: creates, asks: asks{r.rule(s.in.train, configured), configured},
		size: s.Hosts, memory: gate.FromMiB(s.HostMB), seconds: s.seconds(), tenants: s.Tenants,
		patient: s.Patience, seed: s.Seed,
	}
}

// side plays side by side. What each sees does not depend on the others.
func (s *stage) side(ctx context.Context, plays []play, rows []Row) error {
	for i := range plays {
		s.total.Add(int64(plays[i].seconds) * int64(plays[i].size))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(s.Jobs, 1))
	for i := range plays {
		group.Go(func() (err error) {
			rows[i].Figures, err = plays[i].run(ctx, func(n int64) {
				if now := s.done.Add(n); s.Progress != nil {
					s.Progress(now, s.total.Load())
				}
			})
			return err
		})
	}
	return group.Wait()
}

// exceed sets what each regime refused beside what hindsight did of the same.
func exceed(rows []Row) {
	for i := range rows {
		for j := range rows {
			h := &rows[j]
			if h.Regime == Hindsight && h.Quota == rows[i].Quota && h.Load == rows[i].Load {
				rows[i].Excess = rows[i].RefusedPart() - h.RefusedPart()
			}
		}
	}
}

func (s *stage) result(rows, sensitivity, together []Row) *Result {
	ask := gate.Ask{Memory: gate.FromMiB(s.ConfiguredMB)}
	reserve := func(r regime) int64 {
		ask.Rule = r.rule(s.in.train, ask.Memory)
		return gate.Reserve(ask, gate.WorkingSet).CeilMiB()
	}
	all := regimesAll()
	r := &Result{
		Source: s.in.source, Seed: s.Seed, Hosts: s.Hosts, HostMB: s.HostMB, ConfiguredMB: s.ConfiguredMB,
		Hours: s.Hours, Load: round(s.load), Batched: s.Batched, Alike: s.Alike, Tenants: s.Tenants, Quota: s.limit,
		PatienceS: s.Patience.Seconds(), TrainRuns: len(s.in.train), PriorMB: reserve(all[0]), LearnedMB: reserve(all[3]),
		Regimes: rows, Sensitivity: sensitivity, Together: together,
	}
	r.Assumed = s.assumed(r)
	return r
}

// all are the rows of all plays.
func (r *Result) all() [][]Row { return [][]Row{r.Regimes, r.Sensitivity, r.Together} }

var _ report.Judged = (*Result)(nil)

// Broken says what was seen that may never be, or nothing.
func (r *Result) Broken() error {
	for _, rows := range r.all() {
		for i := range rows {
			if row := &rows[i]; row.OverAdmissions > 0 || row.AgainstOwnWord > 0 {
				return &cli.Failure{
					Status: 1, Err: fmt.Errorf("%s, load %g: %d over-admissions, and %d refusals against a host's own word; both must be 0", row.Regime, row.Load, row.OverAdmissions, row.AgainstOwnWord),
					Try: "play the same seed by the release before; this one should not decide for you",
				}
			}
		}
	}
	return nil
}
