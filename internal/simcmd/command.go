// Package simcmd is `plimsoll sim` on the command line. It is apart from what it plays, so that a
// program that plays, as one is built for each mutant, has none of the command line in it.
package simcmd

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/density"
	"github.com/plimsoll-project/plimsoll/internal/herd"
	"github.com/plimsoll-project/plimsoll/internal/regimes"
	"github.com/plimsoll-project/plimsoll/internal/sim"
	"github.com/plimsoll-project/plimsoll/internal/storm"
)

// violated is how a run ends in which an invariant did not hold; replay tells its story.
func violated(replay string) error {
	return &cli.Failure{Status: 1, Err: errors.New("an invariant did not hold"), Try: replay}
}

// Command is `plimsoll sim`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "sim",
		Short: "Play the real code in virtual time: under every fault, and beside other ways to admit",
		Long: `Play the real code in virtual time: under every fault, and beside other ways to admit.

Does it hold? faults, replay and scenario play replicas, agents, a store and callers, with
lost and late frames, kills, pauses, partitions and failing writes. The invariants of
ARCHITECTURE.md are checked as it happens; exit status 1 says that one did not hold.

What is it worth? Each of these plays ours beside others, on a fitted model or on files of
your own, and writes its result as a page with --report out.html:

  density  a host alone that is always full: how many sandboxes each policy holds
  regimes  a fleet under each way to admit: kills, refusals and waiting
  herd     many replicas over one fleet, and what it costs that they do not know of each other
  burst    many creates within a second, over many replicas
  storm    callers who ask for more than is freed, and what each kind of client costs

The same seed gives the same answer, on every machine.`,
		Example: `  plimsoll sim faults --seeds 1000
  plimsoll sim faults --seeds 200 --hosts 100 --replicas 4 -o json
  plimsoll sim replay 42
  plimsoll sim scenario scenarios/01_twenty_at_once.txt
  plimsoll sim density
  plimsoll sim regimes
  plimsoll sim herd --replicas 1,16
  plimsoll sim burst
  plimsoll sim storm`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(faultsCommand(), replayCommand(), scenarioCommand(), density.Command())
	c.AddCommand(regimes.Command(), herd.Command(), herd.BurstCommand(), storm.Command())
	return c
}

func faultsCommand() *cobra.Command {
	run := sim.Campaign{}
	c := &cobra.Command{
		Use:     "faults",
		Short:   "Play many seeds and look for a violation",
		Example: "  plimsoll sim faults --seeds 1000 --first-seed 1 -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if run.Seeds < 1 || run.Jobs < 1 {
				return cli.Mistake(c, "--seeds %d --jobs %d: both must be at least 1", run.Seeds, run.Jobs)
			}
			if err := checkSize(c, run.Size); err != nil {
				return err
			}
			progress := cli.Progress(c.ErrOrStderr())
			run.Progress = func(done int, events int64) {
				progress(done == run.Seeds, "%d of %d seeds, %d events", done, run.Seeds, events)
			}
			ctx, stop := cli.UntilStopped(c)
			defer stop()
			return show(c, run.Run(ctx))
		},
	}
	c.Flags().IntVar(&run.Seeds, "seeds", 200, "how many")
	c.Flags().Uint64Var(&run.First, "first-seed", 1, "the first; the others follow it")
	c.Flags().IntVar(&run.Jobs, "jobs", runtime.NumCPU(), "seeds played at a time")
	sizeFlags(c, &run.Size)
	return c
}

func sizeFlags(c *cobra.Command, s *sim.Size) {
	c.Flags().IntVar(&s.Hosts, "hosts", 0, "hosts; 0: each seed chooses")
	c.Flags().IntVar(&s.Replicas, "replicas", 0, "replicas; 0: each seed chooses")
	c.Flags().IntVar(&s.Callers, "callers", 0, "callers; 0: each seed chooses")
}

// The most that one history is asked to hold; beyond it a run would not end within a day.
const mostHosts, mostReplicas, mostCallers = 10_000, 64, 100_000

func checkSize(c *cobra.Command, s sim.Size) error {
	if s.Hosts < 0 || s.Hosts > mostHosts || s.Replicas < 0 || s.Replicas > mostReplicas || s.Callers < 0 || s.Callers > mostCallers {
		return cli.Mistake(c, "--hosts %d --replicas %d --callers %d: at most %d, %d and %d", s.Hosts, s.Replicas, s.Callers, mostHosts, mostReplicas, mostCallers)
	}
	return nil
}

func show(c *cobra.Command, s sim.Summary) error {
	err := cli.Show(c, s)
	if err == nil && s.Violations > 0 {
		err = violated(s.Failed[0].Replay)
	}
	return err
}

func replayCommand() *cobra.Command {
	var size sim.Size
	var active time.Duration
	var without []int
	var quiet bool
	c := &cobra.Command{
		Use:     "replay SEED",
		Short:   "Play one seed and tell its story",
		Example: "  plimsoll sim replay 42\n  plimsoll sim replay 42 --callers 3 --without 1,4",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			seed, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return cli.Mistake(c, "%q is no seed: write a whole number", args[0])
			}
			if err := checkSize(c, size); err != nil {
				return err
			}
			p := sim.NewPlan(seed, size)
			p.Without = without
			if active > 0 {
				p.Active = active
			}
			return replay(c, p, quiet)
		},
	}
	sizeFlags(c, &size)
	c.Flags().DurationVar(&active, "active", 0, "how long callers come and faults happen; 0: the seed chooses")
	c.Flags().IntSliceVar(&without, "without", nil, "`numbers` of faults to leave out")
	c.Flags().BoolVar(&quiet, "quiet", false, "only the outcome")
	return c
}

func replay(c *cobra.Command, p sim.Plan, quiet bool) error {
	out := c.OutOrStdout()
	story := out
	if quiet {
		story = nil
	}
	fmt.Fprint(out, p)
	r := sim.Play(p, story)
	fmt.Fprintf(out, "%d events, %d admitted, %d refused, %d boots, digest %016x\n", r.Events, r.Admitted, r.Refused, r.Boots, r.Digest)
	if len(r.Violations) == 0 {
		return nil
	}
	for _, v := range r.Violations {
		fmt.Fprintln(out, v)
	}
	small, _ := sim.Shrink(p)
	if small.Command() != p.Command() {
		fmt.Fprintf(out, "shrunk: %s\n", small.Command())
	}
	return violated(small.Command())
}
