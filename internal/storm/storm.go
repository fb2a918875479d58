package storm

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options is what is played.
type Options struct {
	Cap      int64         // slots of the pool
	Life     time.Duration // mean life of a sandbox; the pool frees Cap ÷ Life when it is full
	Load     float64       // times that rate is asked for in the storm
	Storm    time.Duration // how long it is asked for
	Deadline time.Duration // a caller's patience
	Before   time.Duration // at the ordinary load; 0: two minutes, or five lives where that is more
	Replicas int
	Plays    int // of each kind of client, with other draws
	Seed     uint64
	Jobs     int
	Progress func(done, total int) // plays; may be nil
}

// DefaultOptions are the target's: three times what is freed for a minute, a patience of three.
func DefaultOptions() Options {
	return Options{
		Cap: 200, Life: 20 * time.Second, Load: 3, Storm: time.Minute, Deadline: 3 * time.Minute,
		Replicas: 1, Plays: 4, Seed: 1, Jobs: 1,
	}
}

// Rate is how many slots a full pool frees in a second.
func (o *Options) Rate() float64 { return float64(o.Cap) / o.Life.Seconds() }

// Result is what was seen.
type Result struct {
	Seed        uint64   `json:"seed"`
	Plays       int      `json:"plays"`
	Cap         int64    `json:"cap"`
	LifeS       float64  `json:"life_s"`
	FreedPerS   float64  `json:"freed_per_s"` // by a full pool
	Load        float64  `json:"load"`
	StormS      float64  `json:"storm_s"`
	DeadlineS   float64  `json:"deadline_s"`
	Replicas    int      `json:"replicas"`
	EmptyAfterS float64  `json:"backlog_could_be_empty_s"` // after the storm began; the latest of all plays
	Clients     []Client `json:"clients"`
	Assumed     []string `json:"assumed"`
}

// Client is what one kind of client cost and got, over all plays.
type Client struct {
	Client    string  `json:"client"`
	DeadlineS float64 `json:"deadline_s"`
	Callers   int     `json:"callers"` // who asked in the storm
	Waiters   int     `json:"waiters"` // of those, whose first try was no yes
	Attempts  float64 `json:"attempts_per_waiter"`
	GaveUp    float64 `json:"gave_up"` // part of the waiters
	GaveUps   int     `json:"gave_up_callers"`
	// Recovery is from when the backlog could first be empty to when nobody waits any more; the
	// longest of all plays.
	Recovery  float64 `json:"recovery_s"`
	Hints     int     `json:"hints"`           // told to waiters who were admitted later
	Within20  float64 `json:"hints_within_20"` // part of the hints that were right within a fifth
	Most      int     `json:"most_in_a_second"`
	WaitP50   float64 `json:"wait_p50_s"` // of the waiters who were admitted
	WaitP99   float64 `json:"wait_p99_s"`
	IdleSlots float64 `json:"idle_slot_s"` // slots × seconds that were free while somebody waited, in a play

	first *history // of the first play, for a picture
}

// Simulate plays every kind of client through the same storms.
func Simulate(ctx context.Context, o Options) (*Result, error) {
	kinds := kinds(&o)
	played := make([]*history, len(kinds)*o.Plays)
	var done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Jobs)
	for i := range played {
		g.Go(func() error {
			h, err := play(ctx, &o, kinds[i/o.Plays], uint64(i%o.Plays))
			if err != nil {
				return fmt.Errorf("%s: %w", kinds[i/o.Plays].name, err)
			}
			played[i] = h
			if n := done.Add(1); o.Progress != nil {
				o.Progress(int(n), len(played))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return o.result(kinds, played), nil
}

func (o *Options) result(kinds []kind, played []*history) *Result {
	r := &Result{
		Seed: o.Seed, Plays: o.Plays, Cap: o.Cap, LifeS: o.Life.Seconds(), FreedPerS: o.Rate(), Load: o.Load,
		StormS: o.Storm.Seconds(), DeadlineS: o.Deadline.Seconds(), Replicas: o.Replicas, Assumed: assumed(o),
	}
	for i, k := range kinds {
		of := played[i*o.Plays : (i+1)*o.Plays]
		r.Clients = append(r.Clients, sum(k, of))
		for _, h := range of {
			r.EmptyAfterS = max(r.EmptyAfterS, seconds(h.couldBeEmpty))
		}
	}
	return r
}
