package herd

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/gate"
)

// BurstOptions is what sim burst plays: so many creates that come evenly within a while, to
// replicas at random, on an empty fleet, and that stay.
type BurstOptions struct {
	Creates, Hosts, Slots, Replicas int
	Within                          time.Duration
	Seed                            uint64
	Jobs                            int
	Progress                        func(done, total int) // policies; may be nil
}

// DefaultBurst is the target's.
func DefaultBurst() BurstOptions {
	return BurstOptions{Creates: 20_000, Hosts: 1000, Slots: 29, Replicas: 16, Within: time.Second, Seed: 1, Jobs: 1}
}

// BurstResult is what was seen of ours, and of the peers beside it.
type BurstResult struct {
	Hosts    int     `json:"hosts"`
	Slots    int     `json:"slots_per_host"`
	Replicas int     `json:"replicas"`
	WithinS  float64 `json:"within_s"`
	Seed     uint64  `json:"seed"`
	Burst
	Peers   []Burst  `json:"peers"`
	Assumed []string `json:"assumed"`
}

// Burst is one policy's.
type Burst struct {
	Policy         string  `json:"policy"`
	Creates        int     `json:"creates"`
	Admitted       int     `json:"admitted"`
	Refused        int     `json:"refused"`
	WrongRefusals  int     `json:"wrong_refusals"`
	OverAdmissions int     `json:"over_admissions"`
	MaxOverMean    float64 `json:"max_over_mean"` // of the sandboxes on a host
	Calls          float64 `json:"reserve_calls_per_create"`
	Most           int     `json:"most_on_a_host"`
	Fewest         int     `json:"fewest_on_a_host"`
}

// SimulateBurst plays the burst by every policy.
func SimulateBurst(ctx context.Context, o BurstOptions) (*BurstResult, error) {
	policies := append([]string{Deltas, NoShare}, Policies()[:3]...)
	played := make([]Burst, len(policies))
	steps := newCounter(len(policies), o.Progress)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Jobs)
	for i, name := range policies {
		g.Go(func() (err error) {
			played[i], err = o.play(ctx, name)
			steps.one()
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return &BurstResult{
		Hosts: o.Hosts, Slots: o.Slots, Replicas: o.Replicas, WithinS: o.Within.Seconds(), Seed: o.Seed,
		Burst: played[0], Peers: played[1:], Assumed: burstAssumed(),
	}, nil
}

func (o *BurstOptions) play(ctx context.Context, name string) (Burst, error) {
	ask := askOf()
	f := newFleet(o.Hosts, o.Slots, o.Replicas, &ask, o.Seed)
	if err := f.storm(ctx, newPolicy(f, name), o.Creates, o.Within); err != nil {
		return Burst{}, err
	}
	b := Burst{
		Policy: name, Creates: o.Creates, Admitted: f.got.Admitted, Refused: f.got.Refused,
		WrongRefusals: f.got.wrong, OverAdmissions: f.got.over,
		Calls: float64(f.got.calls) / float64(o.Creates), Most: f.most(), Fewest: f.fewest(),
	}
	if b.Admitted > 0 {
		b.MaxOverMean = float64(b.Most) * float64(o.Hosts) / float64(b.Admitted)
	}
	return b, nil
}

// storm has creates come evenly, each to any of the replicas, until each has its answer.
func (f *fleet) storm(ctx context.Context, p policy, creates int, within time.Duration) error {
	for k := range creates {
		c := create{at: within * time.Duration(k) / time.Duration(creates), life: forever, nth: k}
		r := f.rand.IntN(f.replicas)
		f.at(c.at, func() { p.come(r, &c) })
	}
	for n := 0; f.got.Admitted+f.got.Refused < creates; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		f.step()
	}
	return nil
}

// askOf is what every create asks for: 4 GiB, of which the essay's rule reserves a quarter.
func askOf() gate.Ask {
	return gate.Ask{Class: "agent", Memory: 4 * gate.GiB, CPUMilli: 500, Rule: gate.DefaultReserveRule()}
}
