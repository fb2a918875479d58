package sim

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Campaign is a run over many seeds.
type Campaign struct {
	First uint64
	Seeds int
	Size  Size
	Jobs  int // seeds played at a time, each by itself
	// Progress is told after each seed; nil: nobody is.
	Progress func(done int, events int64)
}

// Summary is what plimsoll sim faults prints.
type Summary struct {
	Seeds      int      `json:"seeds"`
	Events     int64    `json:"events"`
	Faults     int      `json:"faults"`
	Admitted   int      `json:"admitted"`
	Refused    int      `json:"refused"`
	Boots      int      `json:"boots"`
	Evictions  int      `json:"evictions"`
	Violations int      `json:"violations"`
	Digest     string   `json:"digest"`       // of all seeds, in their order
	PerSecond  int64    `json:"events_per_s"` // of one core
	Failed     []Failed `json:"failed,omitempty"`
}

// Failed is a seed that violated an invariant, and the smallest plan that still does.
type Failed struct {
	Seed      uint64 `json:"seed"`
	Invariant int    `json:"invariant"`
	What      string `json:"what"`
	Replay    string `json:"replay"`
}

// Run plays the seeds. When ctx ends, it sums up what it has.
func (c Campaign) Run(ctx context.Context) Summary {
	seeds := make(chan int)
	results := make([]*played, c.Seeds)
	var done sync.WaitGroup
	var told progress
	for range max(c.Jobs, 1) {
		done.Go(func() {
			for i := range seeds {
				results[i] = c.play(c.First + uint64(i))
				told.add(c.Progress, results[i].result.Events)
			}
		})
	}
	for i := range c.Seeds {
		select {
		case seeds <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(seeds)
	done.Wait()
	return sum(results)
}

// played is one seed with the time it took.
type played struct {
	result Result
	took   time.Duration
	failed *Failed
}

func (c Campaign) play(seed uint64) *played {
	plan := NewPlan(seed, c.Size)
	began := time.Now()
	p := &played{result: Play(plan, nil), took: time.Since(began)}
	if len(p.result.Violations) > 0 {
		small, r := Shrink(plan)
		v := r.Violations[0]
		p.failed = &Failed{Seed: seed, Invariant: int(v.Invariant), What: v.String(), Replay: small.Command()}
	}
	return p
}

func sum(results []*played) Summary {
	var s Summary
	var took time.Duration
	w := newWorld(0)
	for _, p := range results {
		if p == nil {
			continue
		}
		r := p.result
		s.Seeds++
		s.Events += r.Events
		s.Faults += r.Faults
		s.Admitted += r.Admitted
		s.Refused += r.Refused
		s.Boots += r.Boots
		s.Evictions += r.Evictions
		s.Violations += len(r.Violations)
		if p.failed != nil {
			s.Failed = append(s.Failed, *p.failed)
		}
		took += p.took
		w.mix(r.Digest)
	}
	s.Digest = fmt.Sprintf("%016x", w.digest)
	if took > 0 {
		s.PerSecond = int64(float64(s.Events) / took.Seconds())
	}
	return s
}

// progress counts what is done, from several jobs.
type progress struct {
	mu     sync.Mutex // guards what follows
	done   int
	events int64
}

func (p *progress) add(tell func(int, int64), events int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.events += events
	if tell != nil {
		tell(p.done, p.events)
	}
}

// Print is the summary for people.
func (s Summary) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d seeds, %d events, %d faults: %d admitted, %d refused, %d boots\n%d violations, digest %s, %d events/s on a core\n",
		s.Seeds, s.Events, s.Faults, s.Admitted, s.Refused, s.Boots, s.Violations, s.Digest, s.PerSecond)
	for _, f := range s.Failed {
		if err == nil {
			_, err = fmt.Fprintf(w, "\nseed %d: %s\n  replay, shrunk: %s\n", f.Seed, f.What, f.Replay)
		}
	}
	return err
}
