package herd

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/gate"
)

// BurstOptions is what sim burst plays: so many creates that come evenly within a while, to
// replicas at random, on an empty fleet, and that stay.
type BurstOptions struct {
	Creates, Hosts, Slots, Replicas int
	Within                          time.Duration
	Bursts                          int // played one by one, each with a seed of its own
	Seed                            uint64
	Jobs                            int
	Progress                        func(done, total int) // bursts; may be nil
}

// DefaultBurst is the target's.
func DefaultBurst() BurstOptions {
	return BurstOptions{Creates: 20_000, Hosts: 1000, Slots: 29, Replicas: 16, Within: time.Second, Bursts: 10, Seed: 1, Jobs: 1}
}

// BurstResult is what was seen of ours, and of the peers beside it.
type BurstResult struct {
	Hosts    int     `json:"hosts"`
	Slots    int     `json:"slots_per_host"`
	Replicas int     `json:"replicas"`
	WithinS  float64 `json:"within_s"`
	Bursts   int     `json:"bursts"`
	Seed     uint64  `json:"seed"`
	Burst
	Peers   []Burst  `json:"peers"`
	Assumed []string `json:"assumed"`
}

// Burst is one policy's. Counts are over all bursts, parts are of all creates.
type Burst struct {
	Policy         string  `json:"policy"`
	Creates        int     `json:"creates"` // in each burst
	Refused        float64 `json:"refused"`
	WrongRefusals  int     `json:"wrong_refusals"`
	UnsaidRoom     int     `json:"refused_beside_unsaid_room"`
	OverAdmissions int     `json:"over_admissions"`
	MaxOverMean    float64 `json:"max_over_mean"` // of the sandboxes on a host, in the median burst
	Worst          float64 `json:"max_over_mean_worst"`
	Calls          float64 `json:"reserve_calls_per_create"`
	Most           int     `json:"most_on_a_host"`
	Fewest         int     `json:"fewest_on_a_host"`
}

// SimulateBurst plays the bursts by every policy.
func SimulateBurst(ctx context.Context, o BurstOptions) (*BurstResult, error) {
	policies := append([]string{Deltas, NoShare}, Policies()[:3]...)
	played := make([][]*fleet, len(policies))
	steps := newCounter(len(policies)*o.Bursts, o.Progress)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Jobs)
	for i, name := range policies {
		played[i] = make([]*fleet, o.Bursts)
		for k := range o.Bursts {
			g.Go(func() (err error) {
				played[i][k], err = o.play(ctx, name, o.Seed+uint64(k))
				steps.one()
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	r := &BurstResult{
		Hosts: o.Hosts, Slots: o.Slots, Replicas: o.Replicas, WithinS: o.Within.Seconds(), Bursts: o.Bursts, Seed: o.Seed,
		Burst: o.sum(policies[0], played[0]), Assumed: burstAssumed(),
	}
	for i, name := range policies[1:] {
		r.Peers = append(r.Peers, o.sum(name, played[i+1]))
	}
	return r, nil
}

// play plays one burst.
func (o *BurstOptions) play(ctx context.Context, name string, seed uint64) (*fleet, error) {
	ask := askOf()
	f := newFleet(o.Hosts, o.Slots, o.Replicas, &ask, seed)
	err := f.storm(ctx, newPolicy(f, name), o.Creates, o.Within)
	f.clock = clock{} // what would come later is not played
	return f, err
}

// sum makes one of all bursts of a policy.
func (o *BurstOptions) sum(name string, played []*fleet) Burst {
	b := Burst{Policy: name, Creates: o.Creates, Fewest: o.Slots}
	var uneven []float64
	for _, f := range played {
		uneven = append(uneven, f.maxOverMean())
		b.Refused += float64(f.got.Refused)
		b.Calls += float64(f.got.calls)
		b.WrongRefusals += f.got.wrong
		b.UnsaidRoom += f.got.unsaid
		b.OverAdmissions += f.got.over
		b.Most, b.Fewest = max(b.Most, f.most()), min(b.Fewest, f.fewest())
	}
	all := float64(o.Creates * len(played))
	b.Refused, b.Calls = b.Refused/all, b.Calls/all
	slices.Sort(uneven)
	b.MaxOverMean, b.Worst = uneven[(len(uneven)-1)/2], uneven[len(uneven)-1]
	return b
}

// maxOverMean is what the fullest host holds by what the mean one does.
func (f *fleet) maxOverMean() float64 {
	if f.got.Admitted == 0 {
		return 0
	}
	return float64(f.most()) * float64(len(f.hosts)) / float64(f.got.Admitted)
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
