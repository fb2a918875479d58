package herd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/report"
)

// Command is `plimsoll sim herd`.
func Command() *cobra.Command {
	o, to := DefaultOptions(), ""
	lives, loads := words(o.Lives), words(o.Loads)
	c := &cobra.Command{
		Use:   "herd",
		Short: "What it costs that many replicas decide, by each way to know of the hosts",
		Long: `What it costs that many replicas decide, by each way to know of the hosts.

Creates come to 1 to 16 replicas over one fleet, in virtual time. One pool that knows of every
slot at once would refuse Erlang-B of them; what is refused beyond that is the price of views
that are old and of replicas that do not know of each other:

  heartbeats     the essay's scan over reports of 10 s, a ledger in each replica
  shared_ledger  the same, one ledger for all replicas
  best_of_3      three hosts at random, the best by what was polled (E2B's shape)
  deltas         ours: hosts push what moves, and have the last word in one step

excess is refused less Erlang-B, as a part of all creates, with its standard error beside it.
of pooled is refused less what one pool refused of the very same creates, which is far
sharper. wrong refusals are those beside room that its host had said, or would have by our
rule; unsaid those beside room that was too fresh for it. denied are questions that hosts
answered no. The same seed gives the same answer with any --jobs.

` + plainly(assumed()),
		Example: `  plimsoll sim herd
  plimsoll sim herd --replicas 1,4 --lives 30s --loads 0.9 -o json
  plimsoll sim herd --hosts 32 --policies deltas,best_of_3 --requests 2000000
  plimsoll sim herd --report herd.html`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.parse(lives, loads); err != nil {
				return cli.Mistake(c, "%w", err)
			}
			o.Progress = cli.Count[int](c, "rows")
			return report.Play(c, to, func(ctx context.Context) (report.Paged, error) { return Simulate(ctx, o) })
		},
	}
	f := c.Flags()
	f.IntVar(&o.Hosts, "hosts", o.Hosts, "hosts")
	f.IntVar(&o.Slots, "slots", o.Slots, "sandboxes that fit on each")
	f.IntSliceVar(&o.Replicas, "replicas", o.Replicas, "`numbers` of replicas, each played")
	f.StringSliceVar(&lives, "lives", lives, "mean `lives`, each played")
	f.StringSliceVar(&loads, "loads", loads, "`parts` of all slots that are asked for, each played")
	f.StringSliceVar(&o.Policies, "policies", o.Policies, "`names` of those played")
	f.IntVar(&o.Requests, "requests", o.Requests, "creates that count in each row")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "what the draws follow from")
	f.IntVar(&o.Jobs, "jobs", runtime.NumCPU(), "rows played at a time")
	report.Flag(c, &to)
	return c
}

// BurstCommand is `plimsoll sim burst`.
func BurstCommand() *cobra.Command {
	o, to := DefaultBurst(), ""
	c := &cobra.Command{
		Use:   "burst",
		Short: "Many creates within a second, over many replicas: who is filled, and how often one asks in vain",
		Long: `Many creates within a second, over many replicas: who is filled, and how often one asks in vain.

The views of the replicas agree and are a little old, so that all would run to the same few
hosts. max/mean is the sandboxes of the fullest host by those of the mean one, in the median
burst and in the worst; calls are questions to hosts that a create took.

deltas is ours; deltas_without_a_share is ours without a share of the hosts that each replica
takes first; the others are as plimsoll sim herd has them.

` + plainly(burstAssumed()),
		Example: `  plimsoll sim burst
  plimsoll sim burst --creates 35000 --replicas 4 -o json
  plimsoll sim burst --report burst.html`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return cli.Mistake(c, "%w", err)
			}
			o.Progress = cli.Count[int](c, "bursts")
			return report.Play(c, to, func(ctx context.Context) (report.Paged, error) { return SimulateBurst(ctx, o) })
		},
	}
	f := c.Flags()
	f.IntVar(&o.Creates, "creates", o.Creates, "creates")
	f.IntVar(&o.Hosts, "hosts", o.Hosts, "hosts")
	f.IntVar(&o.Slots, "slots", o.Slots, "sandboxes that fit on each")
	f.IntVar(&o.Replicas, "replicas", o.Replicas, "replicas")
	f.IntVar(&o.Bursts, "bursts", o.Bursts, "how many are played, each with a seed of its own")
	f.DurationVar(&o.Within, "within", o.Within, "how long until the last has come")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "what the draws follow from")
	f.IntVar(&o.Jobs, "jobs", runtime.NumCPU(), "bursts played at a time")
	report.Flag(c, &to)
	return c
}

// What is played at most: beyond it a run would not end within a day.
const (
	mostHosts, mostSlots, mostReplicas = 10_000, 10_000, 64
	mostCreates                        = 1_000_000_000
	mostBursts                         = 1000
)

func (o *Options) parse(lives, loads []string) (err error) {
	o.Lives, o.Loads = nil, nil
	for _, word := range lives {
		life, err := time.ParseDuration(word)
		if err != nil || life < time.Millisecond || life > 24*time.Hour {
			return fmt.Errorf("--lives %s: each is a time from 1ms to 24h, as in 10s,60s", word)
		}
		o.Lives = append(o.Lives, life)
	}
	for _, word := range loads {
		load, err := strconv.ParseFloat(word, 64)
		if err != nil || !(load > 0 && load <= 10) {
			return fmt.Errorf("--loads %s: each is a part of the slots above 0 and at most 10, as in 0.8,0.95", word)
		}
		o.Loads = append(o.Loads, load)
	}
	return o.check()
}

func (o *Options) check() error {
	for _, n := range o.Replicas {
		if n < 1 || n > mostReplicas {
			return fmt.Errorf("--replicas %d: each number is 1 to %d", n, mostReplicas)
		}
	}
	for _, name := range o.Policies {
		if !slices.Contains(Policies(), name) {
			return fmt.Errorf("--policies %s: there are %s", name, strings.Join(Policies(), ", "))
		}
	}
	switch {
	case len(o.Replicas) == 0 || len(o.Lives) == 0 || len(o.Loads) == 0 || len(o.Policies) == 0:
		return errors.New("--replicas, --lives, --loads and --policies: give at least one of each")
	case o.Requests < parts || o.Requests > mostCreates:
		return fmt.Errorf("--requests %d: from %d to %d", o.Requests, parts, mostCreates)
	}
	return checkFleet(o.Hosts, o.Slots, o.Jobs)
}

func (o *BurstOptions) check() error {
	switch {
	case o.Creates < 1 || o.Creates > mostCreates/100:
		return fmt.Errorf("--creates %d: from 1 to %d", o.Creates, mostCreates/100)
	case o.Replicas < 1 || o.Replicas > mostReplicas:
		return fmt.Errorf("--replicas %d: from 1 to %d", o.Replicas, mostReplicas)
	case o.Bursts < 1 || o.Bursts > mostBursts:
		return fmt.Errorf("--bursts %d: from 1 to %d", o.Bursts, mostBursts)
	case o.Within < 0 || o.Within > 24*time.Hour:
		return fmt.Errorf("--within %v: from 0s to 24h", o.Within)
	}
	return checkFleet(o.Hosts, o.Slots, o.Jobs)
}

func checkFleet(hosts, slots, jobs int) error {
	switch {
	case hosts < 1 || hosts > mostHosts:
		return fmt.Errorf("--hosts %d: from 1 to %d", hosts, mostHosts)
	case slots < 1 || slots > mostSlots:
		return fmt.Errorf("--slots %d: from 1 to %d", slots, mostSlots)
	case jobs < 1:
		return fmt.Errorf("--jobs %d: at least 1", jobs)
	}
	return nil
}

func words[T any](all []T) (out []string) {
	for _, v := range all {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// plainly is what was assumed as the help has it, in lines of up to 95 characters.
func plainly(assumed []string) string {
	lines := []string{"Assumed:"}
	for _, s := range assumed {
		mark := "  - "
		for _, line := range cli.Wrap(s, 95-len(mark)) {
			lines = append(lines, mark+line)
			mark = "    "
		}
	}
	return strings.Join(lines, "\n")
}
