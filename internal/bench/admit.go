package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// AdmitOptions are a run's settings; the zero value takes every default.
type AdmitOptions struct {
	Mode     string        // http: one by one; batch
	Record   string        // of the class: store or host
	Store    string        // sqlite, or a connection string of PostgreSQL
	Agents   int           // 8
	Replicas int           // 1
	Callers  int           // 64 one by one, 8 in batches
	Batch    int           // asks in one; 64
	Rate     int           // admissions a second in all; 0: each caller's next as soon as its last is answered
	For      time.Duration // timed; 5 s
	Progress io.Writer     // nil: nobody watches
}

// The words of Mode and Record.
const (
	OneByOne    = "http"
	InBatches   = "batch"
	RecordStore = "store"
	RecordHost  = "host"
)

// check refuses what no run can be.
func (o AdmitOptions) check() error {
	switch {
	case o.Mode != OneByOne && o.Mode != InBatches:
		return fmt.Errorf("--mode %s: write %s or %s", o.Mode, OneByOne, InBatches)
	case o.Record != RecordStore && o.Record != RecordHost:
		return fmt.Errorf("--record %s: write %s or %s", o.Record, RecordStore, RecordHost)
	case o.Agents < 1 || o.Replicas < 1 || o.Callers < 0 || o.Rate < 0 || o.For < time.Millisecond:
		return errors.New("--agents and --replicas must be at least 1, --callers and --rate at least 0, --for at least 1ms")
	case o.Batch < 1 || o.Batch > 256:
		return fmt.Errorf("--batch %d: write 1 to 256", o.Batch)
	}
	return nil
}

func (o AdmitOptions) withDefaults() AdmitOptions {
	text := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	text(&o.Mode, OneByOne)
	text(&o.Record, RecordStore)
	text(&o.Store, embedded)
	callers := 64
	if o.Mode == InBatches {
		callers = 8
	}
	for _, f := range []struct {
		field *int
		value int
	}{{&o.Agents, 8}, {&o.Replicas, 1}, {&o.Callers, callers}, {&o.Batch, 64}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	if o.Mode == OneByOne {
		o.Batch = 1
	}
	if o.For <= 0 {
		o.For = 5 * time.Second
	}
	return o
}

// AdmitResult is what plimsoll bench admit prints.
type AdmitResult struct {
	Mode       string  `json:"mode"`
	Record     string  `json:"record"`
	Store      string  `json:"store"`
	Agents     int     `json:"agents"`
	Replicas   int     `json:"replicas"`
	Callers    int     `json:"callers"`
	Batch      int     `json:"batch"`
	Rate       int     `json:"rate"`       // 0: as fast as they are answered
	Wire       string  `json:"wire"`       // between replicas and agents
	Admissions int64   `json:"admissions"` // timed
	PerSec     float64 `json:"admissions_per_s"`
	P50        int64   `json:"p50_us"` // of one call, as its caller sees it; with a rate from when it was due
	P99        int64   `json:"p99_us"`
	Errors     int64   `json:"errors"`
	FirstError string  `json:"first_error,omitempty"`
	Reserves   float64 `json:"reserves_per_create"`
	CPU        float64 `json:"cpu_us_per_admission"` // of the whole process, callers and agents included
}

// Admit measures whole admissions over HTTP and JSON: the claim, the pick, the agent's
// reservation in its real ledger and on its disk, the ticket. All of it runs here: agents,
// replicas, store and callers share this machine.
func Admit(ctx context.Context, o AdmitOptions) (r AdmitResult, err error) {
	o = o.withDefaults()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	parts, running := errgroup.WithContext(running)
	s, err := newStage(running, parts, o)
	defer func() {
		stop()
		err = errors.Join(err, parts.Wait(), s.remove())
	}()
	if err != nil {
		return r, err
	}
	x := newCallers(o, s.addresses)
	if _, err := x.run(ctx, max(o.For/5, 200*time.Millisecond), "warm-up"); err != nil {
		return r, err
	}
	reserves, spent := s.reserves.Load(), cpuTime()
	t, err := x.run(ctx, o.For, "timed")
	r = AdmitResult{
		Mode: o.Mode, Record: o.Record, Store: s.store.name, Agents: o.Agents, Replicas: o.Replicas, Callers: o.Callers,
		Batch: o.Batch, Rate: o.Rate, Wire: "one stream for each replica and agent, on loopback",
		Admissions: t.admissions, PerSec: float64(int64(float64(t.admissions) / t.took.Seconds())),
		P50: t.times.ValueAtQuantile(50), P99: t.times.ValueAtQuantile(99), Errors: t.errors, FirstError: t.first,
		CPU:      float64((cpuTime() - spent).Microseconds()) / float64(max(t.admissions, 1)),
		Reserves: float64(s.reserves.Load()-reserves) / float64(max(t.admissions, 1)),
	}
	return r, errors.Join(err, context.Cause(ctx))
}

// cpuTime is the processor time of this process so far. Where others share the machine it
// says more than the clock does.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Print writes the result as a table for people.
func (r AdmitResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s, record: %s, %d agents, %d replicas, %d callers\ta second\tp50\tp99\terrors\t\n", r.Mode, r.Record, r.Agents, r.Replicas, r.Callers)
	fmt.Fprintf(t, "admissions\t%.0f\t%d µs\t%d µs\t%d\t\n", r.PerSec, r.P50, r.P99, r.Errors)
	fmt.Fprintf(t, "processor time each\t%.1f µs\t\t\t\t\n", r.CPU)
	fmt.Fprintf(t, "reserve calls a create\t%.4f\t\t\t\t\n", r.Reserves)
	if r.FirstError != "" {
		fmt.Fprintf(t, "the first error: %s\t\t\t\t\t\n", r.FirstError)
	}
	return t.Flush()
}
