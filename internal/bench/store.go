package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/postgres"
	"github.com/plimsoll-project/plimsoll/internal/store/sqlite"
	"github.com/plimsoll-project/plimsoll/pool"
)

// StoreOptions are a run's settings; the zero value takes every default.
type StoreOptions struct {
	Store   string // sqlite, or a connection string of PostgreSQL; sqlite
	Callers int    // 32
	Claims  int    // timed ones; 30,000
}

func (o StoreOptions) withDefaults() StoreOptions {
	if o.Store == "" {
		o.Store = embedded
	}
	if o.Callers <= 0 {
		o.Callers = 32
	}
	if o.Claims <= 0 {
		o.Claims = 30_000
	}
	return o
}

// embedded is the store without an address.
const embedded = "sqlite"

// StoreResult is what plimsoll bench store prints.
type StoreResult struct {
	Store        string  `json:"store"`
	Callers      int     `json:"callers"`
	Claims       int     `json:"claims"`
	ClaimsPerSec float64 `json:"claims_per_s"`
	P50          int64   `json:"p50_us"` // of one claim, as its caller sees it
	P99          int64   `json:"p99_us"`
	PairsPerSec  float64 `json:"pairs_per_s"` // a claim and its release, one after the other
}

// Store measures durable claims of slots of one hot pool, in a database of its own.
func Store(ctx context.Context, o StoreOptions) (r StoreResult, err error) {
	o = o.withDefaults()
	s, remove, err := scratch(ctx, o.Store)
	if err != nil {
		return r, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended, s.Close(), remove())
	}()
	limits := pool.Settings{Pools: map[string]pool.Limits{hotPool: {Cap: 1 << 40}}, DefaultQuota: pool.Unlimited}
	if _, _, err := s.Apply(ctx, control.Config{Document: "bench", By: "bench"}, limits); err != nil {
		return r, err
	}
	r = StoreResult{Store: s.name, Callers: o.Callers, Claims: o.Claims}
	x := crowd{store: s, callers: o.Callers}
	x.run(ctx, o.Claims/4, x.claim)
	claims := x.run(ctx, o.Claims, x.claim)
	pairs := x.run(ctx, o.Claims, x.pair)
	r.ClaimsPerSec, r.PairsPerSec = claims.perSecond(), pairs.perSecond()
	r.P50, r.P99 = claims.times.ValueAtQuantile(50), claims.times.ValueAtQuantile(99)
	return r, errors.Join(x.failed(), context.Cause(ctx))
}

const hotPool = "hot"

// scratchStore is a store in a database that nobody else uses.
type scratchStore struct {
	control.Store
	Run  func(context.Context) error
	name string
}

// scratch makes the database; remove takes it away again, once the store is closed.
func scratch(ctx context.Context, at string) (s scratchStore, remove func() error, err error) {
	if at == embedded {
		dir, err := os.MkdirTemp("", "plimsoll-bench-")
		if err != nil {
			return s, nil, fmt.Errorf("bench: %w", err)
		}
		remove = func() error { return os.RemoveAll(dir) }
		lite, err := sqlite.Open(ctx, filepath.Join(dir, "plimsoll.db"), sqlite.Options{})
		if err != nil {
			return s, nil, errors.Join(err, remove())
		}
		return scratchStore{lite, lite.Run, "sqlite"}, remove, nil
	}
	dsn, remove, err := postgres.Scratch(ctx, at)
	if err != nil {
		return s, nil, err
	}
	pg, err := postgres.Open(ctx, dsn, postgres.Options{})
	if err != nil {
		return s, nil, errors.Join(err, remove())
	}
	return scratchStore{pg, pg.Run, "postgres"}, remove, nil
}

// crowd are callers who ask at the same time, each its next question as soon as it has an answer.
type crowd struct {
	store   control.Store
	callers int
	next    atomic.Int64

	mu  sync.Mutex // guards err
	err error      // the first
}

// timed is what a run took.
type timed struct {
	ops   int
	took  time.Duration
	times *hdrhistogram.Histogram // in microseconds
}

func (t timed) perSecond() float64 { return float64(int(float64(t.ops) / t.took.Seconds())) }

// run shares ops operations among the callers.
func (x *crowd) run(ctx context.Context, ops int, op func(context.Context) error) timed {
	t := timed{ops: ops, times: hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)}
	var left atomic.Int64
	left.Store(int64(ops))
	var mu sync.Mutex // guards t.times
	var wg sync.WaitGroup
	began := time.Now()
	for range x.callers {
		wg.Go(func() {
			own := hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
			for x.failed() == nil && ctx.Err() == nil && left.Add(-1) >= 0 {
				start := time.Now()
				if err := op(ctx); err != nil {
					x.fail(err)
				}
				_ = own.RecordValue(time.Since(start).Microseconds()) // beyond a minute it is lost
			}
			mu.Lock()
			defer mu.Unlock()
			t.times.Merge(own)
		})
	}
	wg.Wait()
	t.took = time.Since(began)
	return t
}

func (x *crowd) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = err
	}
}

func (x *crowd) failed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// claim takes a slot for a key that was never there.
func (x *crowd) claim(ctx context.Context) error {
	_, err := x.granted(ctx)
	return err
}

// pair takes a slot and gives it back.
func (x *crowd) pair(ctx context.Context) error {
	id, err := x.granted(ctx)
	if err == nil {
		_, _, err = x.store.Leave(ctx, id, pool.Passage{})
	}
	return err
}

func (x *crowd) granted(ctx context.Context) (id string, err error) {
	id = fmt.Sprintf("bench-%09d", x.next.Add(1))
	c, err := x.store.Claim(ctx, pool.Claim{
		ID: id, Consumer: "bench", Key: id, Pool: hotPool, Mode: pool.Refuse,
		Contents: pool.Contents{Tenant: "bench", Class: "bench", MemoryMB: 4096, CPUMilli: 1000},
	})
	if err == nil && c.Verdict != pool.Granted {
		err = fmt.Errorf("bench: a claim below the cap was answered %s", c.Verdict)
	}
	return id, err
}

// Print writes the result as a table for people.
func (r StoreResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s, %d callers\ta second\tp50\tp99\t\n", r.Store, r.Callers)
	fmt.Fprintf(t, "claims\t%.0f\t%d µs\t%d µs\t\n", r.ClaimsPerSec, r.P50, r.P99)
	fmt.Fprintf(t, "a claim and its release\t%.0f\t\t\t\n", r.PairsPerSec)
	return t.Flush()
}
