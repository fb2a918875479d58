package density

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/report"
	"github.com/plimsoll-project/plimsoll/learn"
)

// Command is `plimsoll sim density`.
func Command() *cobra.Command {
	o := DefaultOptions()
	var page string
	c := &cobra.Command{
		Use:   "density",
		Short: "How many sandboxes a host holds by each policy, and how often too many",
		Long: `How many sandboxes a host holds by each policy, and how often too many.

Hosts that are always full are played in virtual time by the agent's own rules, sandboxes
drawn from real runs, or from a fitted model of coding agents where no files are given:

  committed  every sandbox is charged what it was configured with
  essay      what is resident; until it has been seen a quarter, at least 512 MiB
  learned    what is resident, and for life at least what was learned from other runs

per host is the mean over the seconds from when a host was full for the first time; over
physical are seconds in which more was resident than the machine has. Nobody is killed for it.
Of the seconds in which the valve was shut, the last column counts those in which the next
would have fitted and all was calm again, only not for long enough.
A batch (--cohorts) starts together as far as it fits, and wholly at a host that is empty, as
each is again from time to time (--renew). A start takes a second, and a host of 8 cores lets
16 start at a time; with --all-at-once a batch starts within one second, and sandboxes of it
that were drawn from the same run spike in the same instant. The headroom is the default.
Without --train-runs the runs are parted in two by the seed, and each half is judged by what
the other taught. The same seed gives the same answer.

The files are CSV with a header: run,lifetime_ms,peak_mib and run,t_ms,resident_mib, a
run's rows in order of time, about one a second. Rows of memory of other runs are passed over,
so that one file does for --memory and --train-memory.`,
		Example: `  plimsoll sim density
  plimsoll sim density --runs runs.csv --memory memory.csv --report density.html
  plimsoll sim density --runs new.csv --memory memory.csv --train-runs old.csv --train-memory memory.csv
  plimsoll sim density --cohorts 74 --host-mb 65536 --configured-mb 2048 --seconds 100000 --seed 7`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return cli.Mistake(c, "%w", err)
			}
			in, err := o.load()
			if err != nil {
				return cli.NotValid(err)
			}
			o.Progress = cli.Count[int64](c, "host-seconds")
			return report.Play(c, page, func(ctx context.Context) (report.Paged, error) { return simulate(ctx, o, in) })
		},
	}
	f := c.Flags()
	f.StringVar(&o.Runs, "runs", "", "`file` of the runs that are played; none: the fitted model")
	f.StringVar(&o.Memory, "memory", "", "`file` of their memory")
	f.StringVar(&o.TrainRuns, "train-runs", "", "`file` of the runs to learn from; none: each half from the other")
	f.StringVar(&o.TrainMemory, "train-memory", "", "`file` of their memory")
	f.IntSliceVar(&o.Cohorts, "cohorts", o.Cohorts, "`sizes` of the batches that are asked for together")
	f.Int64Var(&o.HostMB, "host-mb", o.HostMB, "memory of a host")
	f.Int64Var(&o.ConfiguredMB, "configured-mb", o.ConfiguredMB, "configured memory of a sandbox")
	f.Int64Var(&o.Seconds, "seconds", o.Seconds, "host-seconds for each policy")
	f.DurationVar(&o.Renew, "renew", o.Renew, "how long until a host is empty again, at least 1s")
	f.BoolVar(&o.AllAtOnce, "all-at-once", false, "a start takes no time")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "what the draws follow from")
	f.IntVar(&o.Jobs, "jobs", runtime.NumCPU(), "hosts played at a time")
	f.BoolVar(&o.Candidates, "candidates", false, "other ways to learn a reserve, too")
	report.Flag(c, &page)
	return c
}

// The most that is played: beyond it a run would not end within a day.
const mostSeconds, mostCohort = 1_000_000_000, 100_000

func (o *Options) check() error {
	for _, n := range o.Cohorts {
		if n < 1 || n > mostCohort {
			return fmt.Errorf("--cohorts %d: a batch has 1 to %d sandboxes", n, mostCohort)
		}
	}
	mostMB := gate.PiB.FloorMiB()
	switch {
	case len(o.Cohorts) == 0:
		return errors.New("--cohorts: give at least one size, as in 1,32,74")
	case o.Renew < time.Second:
		return fmt.Errorf("--renew %v: at least 1s", o.Renew)
	case o.Seconds < 1 || o.Seconds > mostSeconds || o.Jobs < 1:
		return fmt.Errorf("--seconds %d --jobs %d: both must be at least 1, and --seconds at most %d", o.Seconds, o.Jobs, mostSeconds)
	case o.HostMB < 1 || o.HostMB > mostMB || o.ConfiguredMB < 1 || o.ConfiguredMB > mostMB:
		return fmt.Errorf("--host-mb %d --configured-mb %d: both are MiB from 1 to %d", o.HostMB, o.ConfiguredMB, mostMB)
	case o.ConfiguredMB > o.HostMB:
		return fmt.Errorf("--configured-mb %d is more than --host-mb %d: no host admits a sandbox that is larger than itself; give a larger host or a smaller sandbox", o.ConfiguredMB, o.HostMB)
	}
	return o.checkFiles()
}

// checkFiles proves that files come in pairs.
func (o *Options) checkFiles() error {
	switch {
	case (o.Runs == "") != (o.Memory == ""):
		return errors.New("--runs and --memory go together")
	case (o.TrainRuns == "") != (o.TrainMemory == ""):
		return errors.New("--train-runs and --train-memory go together")
	case o.TrainRuns != "" && o.Runs == "":
		return errors.New("--train-runs: say with --runs and --memory what is judged by them")
	}
	return nil
}

// Print writes the table for people.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "sandboxes of %d MiB on a host of %d MiB; %s, seed %d\n\n", r.ConfiguredMB, r.HostMB, r.Source, r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tbatch\tper host\tover physical\tof host seconds\tmost resident\tvalve shut\tfor its dwell alone\t")
	for _, p := range r.Policies {
		row(t, p.Policy, "all", p.Figures)
		for _, by := range p.ByCohort {
			row(t, "", fmt.Sprint(by.Cohort), by.Figures)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, l := range r.Learned {
		fmt.Fprintf(w, "%s %d runs, judged by %d others: reserve %d MiB; %.0f %% of runs were to peak above it, %.0f %% did%s\n",
			l.word(), l.TrainRuns, l.JudgedRuns, l.ReserveMB, 100*l.Predicted, 100*l.Seen, l.outcome())
	}
	r.remark(w)
	return r.After30.print(w)
}

// remark says of whom none was ever on a host.
func (r *Result) remark(w io.Writer) {
	for _, p := range r.Policies {
		if p.allSeconds == 0 {
			fmt.Fprintf(w, "%s: not one fits on a host of %d MiB beside its headroom; give a larger --host-mb or a smaller --configured-mb\n", p.Policy, r.HostMB)
		}
	}
}

func (e *Early) print(w io.Writer) (err error) {
	if e == nil {
		_, err = fmt.Fprintf(w, "after %d runs alone: not played, since there are fewer to learn from\n", learn.Enough)
		return err
	}
	_, err = fmt.Fprintf(w, "after %d runs alone (%d choices of them): reserve %d to %d MiB, %.1f per host, at least %.1f: %.0f %% of the learned, at least %.0f %%; %d of %d s over physical\n",
		e.Runs, e.Choices, e.LeastMB, e.MostMB, e.PerHost, e.LeastOfAll, 100*e.OfFinal, 100*e.LeastFinal, e.OverSeconds, e.HostSeconds)
	return err
}

func (l *Lesson) word() string {
	if l.Learned {
		return "learned from"
	}
	return "the prior, since there were only"
}

func (l *Lesson) outcome() string {
	switch {
	case !l.Learned:
		return ""
	case l.Broken:
		return ": more than chance explains, so the prior would be back"
	}
	return ": within what chance explains"
}

func row(w io.Writer, policy, batch string, f Figures) {
	fmt.Fprintf(w, "%s\t%s\t%.1f\t%d s\t%d s\t%d MiB\t%d s\t%d s\t\n", policy, batch, f.PerHost, f.OverPhysical, f.HostSeconds, f.Most, f.Shut, f.Dwelt)
}
