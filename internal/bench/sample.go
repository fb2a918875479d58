package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// SampleOptions are a run's settings; the zero value takes no default.
type SampleOptions struct {
	Sandboxes int           // measured, each way
	Samples   int           // timed
	Watched   int           // by a real agent in a process of its own; 0: none
	For       time.Duration // how long that one is looked at
}

// SampleResult is what plimsoll bench sample prints.
type SampleResult struct {
	Layout    string     `json:"layout"` // how cgroups are laid out here
	Sandboxes int        `json:"sandboxes"`
	Samples   int        `json:"samples"`
	Ways      []SampleBy `json:"ways"`
	Agent     *Footprint `json:"agent,omitempty"`
}

// SampleBy is one way to measure every sandbox once, limits and the arithmetic included.
type SampleBy struct {
	By       string  `json:"by"`                // cgroup, process or smaps_rollup
	Missing  string  `json:"missing,omitempty"` // why there are no figures
	CPUP50MS float64 `json:"cpu_ms_p50"`
	CPUP99MS float64 `json:"cpu_ms_p99"`
	WallMS   float64 `json:"wall_ms_p50"`
	LimitsUS float64 `json:"limits_cpu_us_p50,omitempty"` // of a sample of the limits alone
}

// Sample measures what one sample of an agent costs, and what a whole agent takes.
func Sample(ctx context.Context, o SampleOptions) (r SampleResult, err error) {
	machine, err := hostmem.Discover("/")
	if err != nil {
		return r, err
	}
	r = SampleResult{Layout: machine.Layout(), Sandboxes: o.Sandboxes, Samples: o.Samples}
	// The agent watches those with a cgroup each, where they can have one.
	missing, err := r.measure(ctx, machine, &o, true)
	if err == nil {
		alone := o
		if missing == nil {
			alone.Watched = 0
		} else {
			r.Ways = append(r.Ways, SampleBy{By: "cgroup", Missing: missing.Error()})
		}
		missing, err = r.measure(ctx, machine, &alone, false)
	}
	return r, errors.Join(err, missing)
}

// measure adds the figures of one way; missing says why there is no such way here.
func (r *SampleResult) measure(ctx context.Context, machine *hostmem.Machine, o *SampleOptions, grouped bool) (missing, err error) {
	c, missing := newFlock(machine, o.Sandboxes, grouped)
	if missing != nil {
		return missing, nil
	}
	defer c.close()
	by, err := c.sampled(ctx, o)
	if err != nil {
		return nil, err
	}
	r.Ways = append(r.Ways, by)
	if !grouped {
		r.Ways = append(r.Ways, c.rollups(o))
	}
	if o.Watched > 0 {
		c.close()
		r.Agent, err = watched(ctx, machine, o, grouped)
	}
	return nil, err
}

// watched is what an agent takes with a flock of its own: as many as it has.
func watched(ctx context.Context, machine *hostmem.Machine, o *SampleOptions, grouped bool) (*Footprint, error) {
	c, err := newFlock(machine, o.Watched, grouped)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.footprint(ctx, o)
}

// sampled lets an agent's own sampler look at the flock.
func (c *flock) sampled(ctx context.Context, o *SampleOptions) (SampleBy, error) {
	r := SampleBy{By: c.by()}
	ctx, cancel := context.WithCancel(ctx)
	parts, ctx := errgroup.WithContext(ctx)
	a, err := c.agent(ctx)
	if err != nil {
		cancel()
		return r, err
	}
	parts.Go(func() error { return a.Run(ctx) })
	err = c.track(ctx, a, o.Sandboxes)
	if err == nil {
		sample, end := a.Sampler()
		err = c.seen(ctx, a, o.Sandboxes, sample)
		full := again(o.Samples, func() { sample(ctx, true) })
		limits := again(10*o.Samples, func() { sample(ctx, false) })
		r.CPUP50MS, r.CPUP99MS, r.WallMS = full.cpu(50), full.cpu(99), full.wall50()
		r.LimitsUS = limits.cpu(50) * 1000
		end()
	}
	cancel()
	return r, errors.Join(err, parts.Wait())
}

// agent is one whose own samples stay out of the way: none but the first comes by itself.
func (c *flock) agent(ctx context.Context) (*agent.Agent, error) {
	dir, err := os.MkdirTemp(c.dir, "agent-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	d, err := driver.New(driver.Config{Machine: c.machine, Parent: c.parent})
	if err != nil {
		return nil, err
	}
	cfg := host.DefaultConfig("bench", 1)
	cfg.MaxStarts = math.MaxInt32
	return agent.New(ctx, agent.Config{
		Host: cfg, Dir: dir, SampleLimits: time.Hour, SampleSandboxes: time.Hour,
		Machine: c.machine, Driver: d, Keys: ticket.AudienceKeys{}, Register: agent.Alone, Log: quiet(),
	})
}

// track has the agent charge so many of the flock. They ask for nothing, so that they fit.
func (c *flock) track(ctx context.Context, a *agent.Agent, n int) error {
	for i := range n {
		id := host.LocalPrefix + fmt.Sprint(i)
		process := host.Process{Pid: c.pids[i]}
		if c.grouped {
			process.Cgroup = c.cgroup(i)
		}
		start, err := c.machine.StartTime(process.Pid)
		if err != nil {
			return err
		}
		process.Start = start
		for _, ev := range [...]host.Event{
			host.Reserve{ID: id, Gen: 1, Ask: gate.Ask{Class: "bench", Memory: gate.MiB}, Until: hostmem.BootTime() + time.Minute, Incarnation: a.Incarnation()},
			host.Redeem{ID: id, Epoch: 1},
			host.Track{ID: id, Epoch: 1, Process: process},
		} {
			answer, err := a.Do(ctx, ev)
			if err != nil || answer.Denial != "" {
				return errors.Join(err, fmt.Errorf("bench: %T of sandbox %d: %s %s", ev, i, answer.Denial, answer.Detail))
			}
		}
	}
	return nil
}

// seen proves that samples see what they are to. The kernel adds up what little a cgroup has come
// to hold every two seconds.
func (c *flock) seen(ctx context.Context, a *agent.Agent, n int, sample func(context.Context, bool)) error {
	unseen := n
	for end := time.Now().Add(10 * time.Second); unseen > 0 && time.Now().Before(end); wait(ctx, 100*time.Millisecond) {
		sample(ctx, true)
		v, err := a.View(ctx)
		if err != nil {
			return err
		}
		unseen = n
		for i := range v.Sandboxes {
			if v.Sandboxes[i].Usage.Resident > 0 {
				unseen--
			}
		}
	}
	if unseen > 0 {
		return fmt.Errorf("bench: %d sandboxes were not measured", unseen)
	}
	return nil
}

// rollups reads what is more exact, and costs that.
func (c *flock) rollups(o *SampleOptions) SampleBy {
	r := SampleBy{By: "smaps_rollup"}
	var failed error
	t := again(max(o.Samples/10, 1), func() {
		for _, pid := range c.pids[:o.Sandboxes] {
			if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err != nil {
				failed = err
			}
		}
	})
	if failed != nil {
		r.Missing = failed.Error()
		return r
	}
	r.CPUP50MS, r.CPUP99MS, r.WallMS = t.cpu(50), t.cpu(99), t.wall50()
	return r
}

// costs are those of the same deed, again and again.
type costs struct{ spent, took []time.Duration }

// again does something so many times, and half a dozen before they count.
func again(times int, do func()) (c costs) {
	for i := range times + 6 {
		cpu, then := processorTime(), time.Now()
		do()
		if i >= 6 {
			c.spent, c.took = append(c.spent, processorTime()-cpu), append(c.took, time.Since(then))
		}
	}
	return c
}

func (c costs) cpu(percent int) float64 { return quantileMS(c.spent, percent) }
func (c costs) wall50() float64         { return quantileMS(c.took, 50) }

func quantileMS(all []time.Duration, percent int) float64 {
	sorted := slices.Sorted(slices.Values(all))
	at := min((len(sorted)*percent+99)/100, len(sorted)) - 1
	return math.Round(float64(sorted[max(at, 0)])/float64(10*time.Microsecond)) / 100
}

// Print writes the result as a table for people.
func (r SampleResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "a sample of %d sandboxes, %s\tcpu p50\tcpu p99\ttook p50\tlimits alone\n", r.Sandboxes, r.Layout)
	for _, s := range r.Ways {
		if s.Missing != "" {
			fmt.Fprintf(t, "%s\t-\t%s\n", s.By, s.Missing)
			continue
		}
		limits := "-"
		if s.LimitsUS > 0 {
			limits = fmt.Sprintf("%.0f us of cpu", s.LimitsUS)
		}
		fmt.Fprintf(t, "%s\t%.2f ms\t%.2f ms\t%.2f ms\t%s\n", s.By, s.CPUP50MS, s.CPUP99MS, s.WallMS, limits)
	}
	if a := r.Agent; a != nil {
		fmt.Fprintf(t, "an agent with %d sandboxes by %s\t%.2f %% of a core\t%.1f MiB resident\tover %.0f s\n", a.Sandboxes, a.By, a.CPUPercent, a.ResidentMB, a.ForS)
	}
	return t.Flush()
}
