package herd

import (
	"context"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// The policies, as they are named everywhere.
const (
	Heartbeats   = "heartbeats"
	SharedLedger = "shared_ledger"
	BestOf3      = "best_of_3"
	Deltas       = "deltas"
	NoShare      = "deltas_without_a_share" // to see what the share is worth; of sim burst alone
)

// Policies are those of sim herd, ours last.
func Policies() []string { return []string{Heartbeats, SharedLedger, BestOf3, Deltas} }

// Options is what sim herd plays.
type Options struct {
	Hosts, Slots int             // and slots of each
	Replicas     []int           // each number of them
	Lives        []time.Duration // mean
	Loads        []float64       // of the slots
	Policies     []string
	Requests     int // creates that count in each row
	Seed         uint64
	Jobs         int
	Progress     func(done, total int) // rows; may be nil
}

// DefaultOptions are the target's: the essay's hosts of 32 GiB that take 30 sandboxes of 4 GiB.
func DefaultOptions() Options {
	return Options{
		Hosts: 100, Slots: 30, Replicas: []int{1, 2, 4, 8, 16}, Lives: []time.Duration{10 * time.Second, time.Minute},
		Loads: []float64{0.8, 0.95}, Policies: Policies(), Requests: 500_000, Seed: 1, Jobs: 1,
	}
}

// Result is what was seen.
type Result struct {
	Hosts    int      `json:"hosts"`
	Slots    int      `json:"slots_per_host"`
	Requests int      `json:"requests_per_row"`
	Seed     uint64   `json:"seed"`
	Rows     []Row    `json:"rows"`
	Assumed  []string `json:"assumed"`
}

// Row is one policy with so many replicas under one traffic. Parts are of all creates.
type Row struct {
	Policy   string  `json:"policy"`
	Replicas int     `json:"replicas"`
	Load     float64 `json:"load"`
	LifeS    float64 `json:"life_s"`
	Refused  float64 `json:"refused"`
	ErlangB  float64 `json:"erlang_b"`
	Excess   float64 `json:"excess"` // refused − erlang_b
	ExcessSE float64 `json:"excess_se"`
	Pooled   float64 `json:"pooled"`
	Over     float64 `json:"excess_over_pooled"` // refused − pooled, of the very same creates
	OverSE   float64 `json:"excess_over_pooled_se"`

	OverAdmissions int     `json:"over_admissions"`
	WrongRefusals  int     `json:"wrong_refusals"`
	UnsaidRoom     int     `json:"refused_beside_unsaid_room"`
	Denied         int     `json:"denied_by_host"` // questions that hosts answered no
	Calls          float64 `json:"reserve_calls_per_create"`
}

// cell is a row to be played.
type cell struct {
	policy   string
	replicas int
	load     float64
	life     time.Duration
	seed     uint64
}

func (o *Options) cells() (cells []cell) {
	for _, p := range o.Policies {
		for _, r := range o.Replicas {
			for i, life := range o.Lives {
				for k, load := range o.Loads {
					cells = append(cells, cell{p, r, load, life, o.Seed<<16 + uint64(i)<<8 + uint64(k)})
				}
			}
		}
	}
	return cells
}

// traffic is the same for all policies and numbers of replicas.
func (c *cell) traffic(slots int) traffic {
	return traffic{rate: c.load * float64(slots) / c.life.Seconds(), life: c.life, seed: c.seed}
}

// warm is how many creates come before those that count: ten lives' worth, from an empty fleet.
func (c *cell) warm(slots int) int { return int(math.Ceil(10 * c.load * float64(slots))) }

// Simulate plays every row, some of them side by side.
func Simulate(ctx context.Context, o Options) (*Result, error) {
	cells := o.cells()
	pools, err := o.pools(ctx, cells)
	if err != nil {
		return nil, err
	}
	r := &Result{Hosts: o.Hosts, Slots: o.Slots, Requests: o.Requests, Seed: o.Seed, Rows: make([]Row, len(cells)), Assumed: assumed()}
	rows := newCounter(len(cells), o.Progress)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Jobs)
	for _, i := range longestFirst(cells) {
		g.Go(func() (err error) {
			r.Rows[i], err = o.row(ctx, &cells[i], pools[cells[i].seed])
			rows.one()
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return r, nil
}

// pools plays each traffic on one pool: seed -> what it refuses.
func (o *Options) pools(ctx context.Context, cells []cell) (map[uint64]*onePool, error) {
	played := make([]*onePool, len(o.Lives)*len(o.Loads)) // the first cells have each traffic once
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Jobs)
	slots := o.Hosts * o.Slots
	for i := range played {
		g.Go(func() (err error) {
			c := &cells[i]
			played[i], err = playPool(ctx, c.traffic(slots), slots, c.warm(slots), o.Requests)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	pools := map[uint64]*onePool{}
	for i, p := range played {
		pools[cells[i].seed] = p
	}
	return pools, nil
}

// longestFirst begins with what takes longest, so that no core waits for the last row alone.
func longestFirst(cells []cell) []int {
	order := make([]int, len(cells))
	for i := range order {
		order[i] = i
	}
	cost := func(i int) int {
		if cells[i].policy == Deltas {
			return 1000 + cells[i].replicas
		}
		return cells[i].replicas
	}
	slices.SortStableFunc(order, func(a, b int) int { return cost(b) - cost(a) })
	return order
}

// row plays one.
func (o *Options) row(ctx context.Context, c *cell, one *onePool) (Row, error) {
	slots := o.Hosts * o.Slots
	many, got, err := o.play(ctx, c, c.traffic(slots), c.warm(slots))
	if err != nil {
		return Row{}, err
	}
	row := Row{
		Policy: c.policy, Replicas: c.replicas, Load: c.load, LifeS: c.life.Seconds(),
		ErlangB: ErlangB(slots, c.load*float64(slots)), OverAdmissions: got.over, WrongRefusals: got.wrong, UnsaidRoom: got.unsaid, Denied: got.denied,
		Calls: float64(got.calls) / float64(got.Admitted+got.Refused),
	}
	row.Refused, row.ExcessSE = many.share()
	row.ExcessSE = max(row.ExcessSE, one.se)
	row.Excess = row.Refused - row.ErlangB
	row.Pooled, _ = one.share()
	row.Over, row.OverSE = many.beyond(&one.batches)
	return row, nil
}

// play has the creates come to a fleet, and returns which were refused.
func (o *Options) play(ctx context.Context, c *cell, t traffic, warm int) (batches, tally, error) {
	ask := askOf()
	f := newFleet(o.Hosts, o.Slots, c.replicas, &ask, c.seed)
	many := newBatches(warm, o.Requests)
	f.refused = many.count
	p := newPolicy(f, c.policy)
	a := t.arrivals()
	var come func()
	come = func() {
		c, at := a.next()
		if c.nth >= warm+o.Requests {
			return
		}
		f.at(c.at, func() {
			p.come(int(at*float64(f.replicas)), &c)
			come()
		})
	}
	come()
	for n := 0; f.got.Admitted+f.got.Refused < warm+o.Requests; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return many, f.got, ctx.Err()
		}
		f.step()
	}
	return many, f.got, nil
}

// newPolicy is the policy of a name.
func newPolicy(f *fleet, name string) policy {
	switch name {
	case Heartbeats:
		return newScan(f, false)
	case SharedLedger:
		return newScan(f, true)
	case BestOf3:
		return newBest3(f)
	case NoShare:
		return newDeltas(f, false)
	default:
		return newDeltas(f, true)
	}
}
