package storm

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/report"
)

// Command is `plimsoll sim storm`.
func Command() *cobra.Command {
	o, to := DefaultOptions(), ""
	c := &cobra.Command{
		Use:   "storm",
		Short: "What each kind of client costs and gets when far more is asked for than is freed",
		Long: `What each kind of client costs and gets when far more is asked for than is freed.

A full pool frees --cap ÷ --life slots a second. In a storm --load times that many callers
come, and then none, in virtual time; each wants one sandbox, and waits for it as its
client does:

  fixed        asks every second
  exponential  waits 0.25 s, doubled up to 8 s, without jitter
  essay_sdk    the essay's, which sleeps exactly Retry-After, with its deadline of 90 s and
               with --deadline
  retry_after  comes back to the millisecond when it was told to
  sdk          ours, in queue mode: a place in the line, and long polls at it

The store's line, the measured rates, the appointments and the backoff of sdk are the real
ones. A call is one attempt, however long it is held. A waiter is a caller whose first try
was no yes. recovery is from when the backlog could first be empty, had each slot been
taken in the instant in which it was freed, to when nobody waits; below zero where some
gave up. Hints are right within a fifth of the time that it then took. idle is slots ×
seconds that were free while somebody waited, in one storm.

The same seed gives the same answer. What is assumed is in the JSON and on the page.`,
		Example: `  plimsoll sim storm
  plimsoll sim storm --cap 50 --life 5m --load 2 --storm 10m --deadline 30m
  plimsoll sim storm --replicas 4 -o json
  plimsoll sim storm --report storm.html`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return cli.Mistake(c, "%w", err)
			}
			o.Progress = cli.Count[int](c, "plays")
			return report.Play(c, to, func(ctx context.Context) (report.Paged, error) { return Simulate(ctx, o) })
		},
	}
	f := c.Flags()
	f.Int64Var(&o.Cap, "cap", o.Cap, "slots of the pool")
	f.DurationVar(&o.Life, "life", o.Life, "mean life of a sandbox")
	f.Float64Var(&o.Load, "load", o.Load, "times what a full pool frees, in the storm")
	f.DurationVar(&o.Storm, "storm", o.Storm, "how long the storm lasts")
	f.DurationVar(&o.Deadline, "deadline", o.Deadline, "how long a caller waits before it gives up")
	f.IntVar(&o.Replicas, "replicas", o.Replicas, "replicas that callers ask, each time another")
	f.IntVar(&o.Plays, "plays", o.Plays, "storms for each kind of client")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "what the draws follow from")
	f.IntVar(&o.Jobs, "jobs", runtime.NumCPU(), "storms played at a time")
	report.Flag(c, &to)
	return c
}

// The most that is played: beyond it a run would not end within a day.
const (
	mostCallers  = 100_000
	mostCap      = 10_000
	mostReplicas = 64
	mostPlays    = 1000
	mostLoad     = 100
	longest      = 24 * time.Hour
)

func (o *Options) check() error {
	switch {
	case o.Cap < 1 || o.Cap > mostCap:
		return fmt.Errorf("--cap %d: 1 to %d slots", o.Cap, mostCap)
	case o.Life < time.Second || o.Life > longest:
		return fmt.Errorf("--life %v: from 1s to %v", o.Life, longest)
	case !(o.Load > 0 && o.Load <= mostLoad):
		return fmt.Errorf("--load %v: above 0 and at most %d", o.Load, mostLoad)
	case o.Storm < time.Second || o.Storm > longest:
		return fmt.Errorf("--storm %v: from 1s to %v", o.Storm, longest)
	case o.Deadline < time.Second || o.Deadline > longest:
		return fmt.Errorf("--deadline %v: from 1s to %v", o.Deadline, longest)
	case o.Replicas < 1 || o.Replicas > mostReplicas || o.Plays < 1 || o.Plays > mostPlays || o.Jobs < 1:
		return fmt.Errorf("--replicas %d --plays %d --jobs %d: all must be at least 1, and at most %d replicas and %d plays", o.Replicas, o.Plays, o.Jobs, mostReplicas, mostPlays)
	case o.Rate()*o.Load*o.Storm.Seconds() > mostCallers:
		return fmt.Errorf("--cap %d --life %v --load %v --storm %v: %.0f callers in a storm, and at most %d can be played; give fewer slots, a lower load or a shorter storm",
			o.Cap, o.Life, o.Load, o.Storm, o.Rate()*o.Load*o.Storm.Seconds(), mostCallers)
	}
	return nil
}

// Print writes the table for people.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "%.4g callers a second for %g s at a pool that frees %.4g: storms %d, seed %d, replicas %d\n\n",
		r.Load*r.FreedPerS, r.StormS, r.FreedPerS, r.Plays, r.Seed, r.Replicas)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "client\tdeadline\twaiters\tattempts each\tgave up\trecovery\thints within 20 %\tmost in a second\twait p50\tp99\tidle\t")
	for i := range r.Clients {
		c := &r.Clients[i]
		fmt.Fprintf(t, "%s\t%g s\t%s\t\n", c.Client, c.DeadlineS, strings.Join(c.cells(), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nthe backlog could be empty %.1f s after the storm began, at the latest\n", r.EmptyAfterS)
	return err
}

// right is the part of a client's hints that were right, for people.
func (c *Client) right() string {
	if c.Hints == 0 {
		return "not heeded"
	}
	return fmt.Sprintf("%.1f %%", 100*c.Within20)
}
