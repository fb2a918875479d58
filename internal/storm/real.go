package storm

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// RealOptions is a storm of real clients at a real replica.
type RealOptions struct {
	Clients  int   // of the storm, each with a client and connections of its own
	Cap      int64 // slots of the pool
	Load     float64
	Storm    time.Duration
	Deadline time.Duration // a client's patience
	Before   time.Duration // at the ordinary load
	Modes    []pool.Mode
	Seed     uint64
	Version  string

	// Of a replica that runs already. Address is empty where one is started in this process.
	Address, Token, Class string

	Progress func(over bool, format string, args ...any)
}

// DefaultRealOptions are the target's.
func DefaultRealOptions() RealOptions {
	return RealOptions{
		Clients: 2000, Cap: 200, Load: 3, Storm: time.Minute, Deadline: 3 * time.Minute, Before: 2 * time.Minute,
		Modes: []pool.Mode{pool.Queue, pool.Refuse}, Seed: 1, Progress: func(bool, string, ...any) {},
	}
}

// Life is how long a sandbox lives on average, so that the clients are Load times what is freed.
func (o *RealOptions) Life() time.Duration {
	return time.Duration(float64(o.Cap) * o.Load * float64(o.Storm) / float64(o.Clients))
}

// played is the same storm in virtual time.
func (o *RealOptions) played() *Options {
	return &Options{
		Cap: o.Cap, Life: o.Life(), Load: o.Load, Storm: o.Storm, Deadline: o.Deadline, Before: o.Before,
		Replicas: 1, Plays: 1, Seed: o.Seed, Jobs: 1,
	}
}

// RealResult is what was seen.
type RealResult struct {
	Seed        uint64    `json:"seed"`
	Clients     int       `json:"clients"`
	Cap         int64     `json:"cap"`
	LifeS       float64   `json:"life_s"`
	FreedPerS   float64   `json:"freed_per_s"` // by a full pool
	Load        float64   `json:"load"`
	StormS      float64   `json:"storm_s"`
	DeadlineS   float64   `json:"deadline_s"`
	EmptyAfterS float64   `json:"backlog_could_be_empty_s"` // after the storm began
	Runs        []RealRun `json:"runs"`
	Assumed     []string  `json:"assumed"`
}

// RealRun is the storm in one mode.
type RealRun struct {
	Mode        string  `json:"mode"`
	Measured    Client  `json:"measured"`
	Played      Client  `json:"played"`                // the same callers and lives in virtual time
	FirstRight  float64 `json:"first_hints_within_20"` // of those that clients were told first
	Connections int     `json:"connections"`           // opened, by all clients
	MostOpen    int     `json:"most_connections"`      // at once
	PostP50     float64 `json:"post_p50_ms"`           // of a create, as its client sees it
	PostP99     float64 `json:"post_p99_ms"`
	Errors      int     `json:"errors"` // ends that are neither a not now nor the end of what was held
	FirstError  string  `json:"first_error,omitempty"`
}

// callers draws who comes: at the ordinary load before, and then exactly so many within the storm.
func (o *RealOptions) callers() []arrival {
	r := rand.New(rand.NewPCG(o.Seed, 0))
	life := o.Life().Seconds()
	rate := float64(o.Cap) / life * ordinary
	var all []arrival
	for at := -o.Before + exponentially(r, 1/rate); at < 0; at += exponentially(r, 1/rate) {
		all = append(all, arrival{at, exponentially(r, life)})
	}
	for range o.Clients {
		all = append(all, arrival{time.Duration(r.Int64N(int64(o.Storm))), exponentially(r, life)})
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return all
}

// Run runs the storm in each mode, and plays it.
func Run(ctx context.Context, o RealOptions) (r *RealResult, err error) {
	all := o.callers()
	r = &RealResult{
		Seed: o.Seed, Clients: o.Clients, Cap: o.Cap, LifeS: seconds(o.Life()), FreedPerS: round(o.played().Rate()), Load: o.Load,
		StormS: o.Storm.Seconds(), DeadlineS: o.Deadline.Seconds(), EmptyAfterS: seconds(couldBeEmpty(o.Cap, all)), Assumed: o.assumed(),
	}
	at, err := o.replica(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if failed := at.stop(); err == nil {
			err = failed
		}
	}()
	for _, mode := range o.Modes {
		one, err := o.run(ctx, at, mode, all)
		if err != nil {
			return nil, fmt.Errorf("mode %s: %w", mode, err)
		}
		r.Runs = append(r.Runs, *one)
	}
	return r, nil
}

// run is the storm in one mode, for real and then played.
func (o *RealOptions) run(ctx context.Context, at *place, mode pool.Mode, all []arrival) (*RealRun, error) {
	k := kind{name: sdkName, mode: mode, deadline: o.Deadline, heeds: true, begin: func(c *caller) patient { return newSDK(c) }}
	h, err := playThese(ctx, o.played(), k, 0, all)
	if err != nil {
		return nil, err
	}
	g := newGale(o, at, mode)
	if err := g.blow(ctx, all); err != nil {
		return nil, err
	}
	g.out.couldBeEmpty = couldBeEmpty(o.Cap, all)
	slices.Sort(g.posts)
	return &RealRun{
		Mode: string(mode), Measured: sum(k, []*history{&g.out}), Played: sum(k, []*history{h}), FirstRight: part(g.first.within, g.first.hints),
		Connections: g.lines.dialed, MostOpen: g.lines.most, PostP50: millis(quantile(g.posts, 50)), PostP99: millis(quantile(g.posts, 99)),
		Errors: g.errors, FirstError: g.firstError,
	}, nil
}

func millis(d time.Duration) float64 { return round(1000 * d.Seconds()) }

func (o *RealOptions) assumed() []string {
	where := "The replica is whole, over SQLite, in the process of the clients: they share its cores."
	if o.Address != "" {
		where = "Nobody else uses the pool; slots that others hold are told as taken by the clients' waits alone."
	}
	return []string{
		where,
		fmt.Sprintf("Before the storm callers come for %.0f s at %.0f %% of what a full pool frees; after it nobody comes.", o.Before.Seconds(), 100*ordinary),
		"Gaps before the storm and lives are exponential; the clients of the storm come at moments drawn evenly from it.",
		"Each caller has a client, connections and a key of its own, as if it were a process: package client as it is.",
		"A sandbox is held by its caller for its life, with heartbeats, and then given back; nothing is booted. When nobody waits any more all of them are given back.",
		"A call is a request for admission, a long poll too, at the client's connection; heartbeats and giving back are none.",
		"Played is the same callers with the same lives by plimsoll sim storm, in virtual time.",
	}
}
