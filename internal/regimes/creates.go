package regimes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/played"
	"github.com/plimsoll-project/plimsoll/internal/workload"
	"github.com/plimsoll-project/plimsoll/table"
)

// create is one sandbox that somebody asks for: the same in each regime.
type create struct {
	id     string
	at     time.Duration
	tenant int
	cohort table.Cohort
	cpu    int64
	size   gate.Bytes
	life   played.Life
}

// input is what is played, and where it comes from.
type input struct {
	source        string
	train, judged []workload.Run
	arrivals      []workload.Arrival // nil: they are drawn
}

// load reads what files there are.
func (o *Options) load() (in input, err error) {
	in.source = "fitted model"
	if o.Runs == "" {
		in.train, in.judged = workload.FittedParts(o.Seed)
	} else if err = o.readRuns(&in); err != nil {
		return in, err
	}
	if o.Arrivals == "" {
		return in, nil
	}
	in.source += ", arrivals of " + o.Arrivals
	if in.arrivals, err = workload.ReadArrivals(o.Arrivals); err != nil {
		return in, err
	}
	for i := range in.arrivals {
		if in.arrivals[i].Configured > gate.FromMiB(o.HostMB) {
			return in, fmt.Errorf("%s: a sandbox of %s is larger than a host of %d MiB: give a larger --host-mb, or leave it out", o.Arrivals, in.arrivals[i].Configured, o.HostMB)
		}
	}
	if o.Hours == 0 {
		last := in.arrivals[len(in.arrivals)-1].At
		o.Hours = float64(last/time.Second+1) / 3600
	}
	return in, nil
}

// readRuns parts the runs into those that are learned from and those that are played.
func (o *Options) readRuns(in *input) error {
	runs, err := workload.Read(o.Runs, o.Memory)
	if err != nil {
		return err
	}
	if len(runs) < 2 {
		return fmt.Errorf("%s: one run alone cannot be parted into those to learn from and those to play", o.Runs)
	}
	in.source = "runs of " + o.Runs
	in.train, in.judged = workload.Halves(runs, o.Seed)
	return nil
}

// creates are those of a play, of which so many are asked for as the factor says.
func (in *input) creates(o *Options, factor float64) []create {
	r := rand.New(rand.NewPCG(o.Seed, 0x617272697665))
	var all []create
	if in.arrivals == nil {
		all = in.drawn(o, factor, r)
	} else {
		all = in.recorded(o, factor, r)
	}
	for i := range all {
		all[i].id = fmt.Sprintf("c%d", i+1)
	}
	return all
}

// drawn are creates of an even mean rate, whose lives are runs as they were.
func (in *input) drawn(o *Options, factor float64, r *rand.Rand) (all []create) {
	var runs []int
	shape := workload.Shape{CPUMilli: cpuOfOne, Configured: gate.FromMiB(o.ConfiguredMB), Life: func(r *rand.Rand) time.Duration {
		run := r.IntN(len(in.judged))
		runs = append(runs, run)
		return time.Duration(len(in.judged[run].Resident)) * time.Second
	}}
	draw := workload.Poisson
	if o.Batched {
		draw = workload.Batched
	}
	rate := factor * o.Load * float64(o.Hosts) / workload.MeanLife(in.judged)
	tenants := o.tenants()
	same := map[int]int{} // batch -> the run of its first
	for i, a := range draw(r, rate, o.span(), shape) {
		if first, known := same[a.Batch]; known && o.Alike {
			runs[i] = first
		}
		same[a.Batch] = runs[i]
		all = append(all, create{at: a.At, cpu: a.CPUMilli, size: a.Configured, life: played.AsItWas(in.judged[runs[i]].Resident)})
		tenants.name(&all[i], a.Batch)
	}
	return all
}

// cpuOfOne is what a drawn sandbox asks for: it scores, and refuses nobody.
const cpuOfOne = 250

// recorded are the creates of a file: each lives as long as it did there, and one that still ran
// at the end of the record to the end of the play. What it holds is a run's, drawn out over that
// and in proportion to its size. A batch may come twice, or not, as the factor has it.
func (in *input) recorded(o *Options, factor float64, r *rand.Rand) (all []create) {
	tenants, span := o.tenants(), o.span()
	times := map[int]int{} // batch -> how often it comes
	same := map[int]int{}  // batch -> the run of its first
	for _, a := range in.arrivals {
		if a.At >= span {
			break
		}
		n, known := times[a.Batch]
		if !known {
			n = int(factor)
			if r.Float64() < factor-math.Floor(factor) {
				n++
			}
			times[a.Batch] = n
		}
		life := a.Life
		if a.Censored {
			life = max(life, span-a.At)
		}
		for range n {
			run := r.IntN(len(in.judged))
			if first, known := same[a.Batch]; known && o.Alike {
				run = first
			}
			same[a.Batch] = run
			c := create{at: a.At, cpu: a.CPUMilli, size: a.Configured, life: played.Life{
				Resident: in.judged[run].Resident, Seconds: max(int((life+time.Second-1)/time.Second), 1),
				Size: a.Configured, Of: gate.FromMiB(o.ConfiguredMB),
			}}
			tenants.name(&c, a.Batch)
			all = append(all, c)
		}
	}
	return all
}

// tenants says whose a batch is. There are a few large ones and many small ones: the k-th asks
// for a k-th of what the first does.
type tenants struct {
	rand  *rand.Rand
	upTo  []float64   // the part of all batches that are of the first so many
	known map[int]int // batch -> tenant
}

func (o *Options) tenants() *tenants {
	t := &tenants{rand: rand.New(rand.NewPCG(o.Seed, 0x74656e616e74)), known: map[int]int{}}
	sum := 0.0
	for k := range o.Tenants {
		sum += 1 / float64(k+1)
		t.upTo = append(t.upTo, sum)
	}
	return t
}

func (t *tenants) name(c *create, batch int) {
	tenant, known := t.known[batch]
	if !known {
		last := len(t.upTo) - 1
		at, _ := slices.BinarySearch(t.upTo, t.rand.Float64()*t.upTo[last])
		tenant = min(at, last)
		t.known[batch] = tenant
	}
	c.tenant, c.cohort = tenant, table.CohortOf(fmt.Sprintf("tenant-%d", tenant+1), "agent")
}
