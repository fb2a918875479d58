package regimes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/report"
)

// Command is `plimsoll sim regimes`.
func Command() *cobra.Command {
	o := DefaultOptions()
	var page string
	c := &cobra.Command{
		Use:   "regimes",
		Short: "One fleet under each way to admit: density, kills, refusals and waiting",
		Long: `One fleet under each way to admit: density, kills, refusals and waiting.

The same creates at the same times, with the same lives, come to a fleet in virtual time:

  none       nobody is refused; the kernel kills the largest when a host is full
  committed  every sandbox is charged what it was configured with
  essay      what is resident; until it has been seen a quarter, at least 512 MiB
  learned    what is resident, and for life at least what was learned from other runs
  hindsight  an oracle that has read every life to its end: about the most that fits

each without and with a quota of so many sandboxes for each tenant; and, without, at loads of
0.7, 0.8, 0.9 and 1.1 times as much; and in batches that peak together. The hosts are the
agent's own rules, the pick is the replica's, over one replica whose view is never late, so
that only the arithmetic differs. A refused caller comes back as the SDK does, for as long as
its patience lasts.

  per host       sandboxes on average, over the seconds in which somebody was refused or waited
  in headroom    seconds in which a host had less left than is never promised
  wrongly        creates refused at first, though some host would have held them over their
                 whole life, within its memory less its headroom, beside what ran there
  against own    refused while a host's own newest word said that they fit: must be 0, or the
    word         command ends with status 1; so it does if a host promised more than it had
  by quota       refused by quota, though a host had room
    alone
  success after  from the first refusal until it was admitted, of those that were refused first
  lost work      what those had lived who were killed or evicted

Simplified: hosts are measured once a second, where agents look at the limits 20 times as
often; a start takes until the next second; the essay's hosts have our valve, reclaim and
growth in steps after a kill, which it asks for and does not show; who was killed or evicted
is not asked for again; nothing fails; which tenant a batch is of is drawn, a few large and
many small; what a sandbox of --arrivals holds is a run's, drawn out over its life and in
proportion to its size. The JSON (assumed) and the page say it in full. The same seed gives
the same answer, on any machine and with any --jobs.

The files are CSV with a header: run,lifetime_ms,peak_mib and run,t_ms,resident_mib (one half of
the runs is learned from, the other played), and
arrival_ms,batch,vcpu,configured_mib,lifetime_ms,censored for what is asked for.`,
		Example: `  plimsoll sim regimes
  plimsoll sim regimes --load 100 --batched --alike -o json
  plimsoll sim regimes --runs runs.csv --memory memory.csv --hosts 20
  plimsoll sim regimes --report regimes.html
  plimsoll sim regimes --arrivals arrivals.csv --hosts 50 --host-mb 131072`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(c); err != nil {
				return cli.Mistake(c, "%w", err)
			}
			in, err := o.load()
			if err == nil {
				err = o.checkSize()
			}
			if err != nil {
				return cli.NotValid(err)
			}
			o.Progress = cli.Count[int64](c, "host-seconds")
			return report.Play(c, page, func(ctx context.Context) (report.Paged, error) { return simulate(ctx, o, in) })
		},
	}
	o.flags(c)
	report.Flag(c, &page)
	return c
}

func (o *Options) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.Runs, "runs", "", "`file` of runs; none: the fitted model")
	f.StringVar(&o.Memory, "memory", "", "`file` of their memory")
	f.StringVar(&o.Arrivals, "arrivals", "", "`file` of what is asked for, and when; none: it is drawn")
	f.IntVar(&o.Hosts, "hosts", o.Hosts, "how many hosts")
	f.Int64Var(&o.HostMB, "host-mb", o.HostMB, "memory of a host")
	f.Int64Var(&o.ConfiguredMB, "configured-mb", o.ConfiguredMB, "configured memory of a sandbox, and of those that the runs are of")
	f.Float64Var(&o.Hours, "hours", o.Hours, "how long is played; with --arrivals the whole file, unless it is said")
	f.Float64Var(&o.Load, "load", o.Load, "sandboxes asked for per host, on average")
	f.BoolVar(&o.Batched, "batched", false, "drawn in batches of one tenant's, as a public cloud has them; else singles")
	f.BoolVar(&o.Alike, "alike", false, "sandboxes of one batch live the same run, and peak in the same second")
	f.IntVar(&o.Tenants, "tenants", o.Tenants, "tenants, a few large and many small")
	f.Int64Var(&o.Quota, "quota", 0, "sandboxes that a tenant may have at a time; 0: twice an even part of the load")
	f.DurationVar(&o.Patience, "patience", o.Patience, "how long a refused caller comes back for")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "what the draws follow from")
	f.IntVar(&o.Jobs, "jobs", runtime.NumCPU(), "fleets played at a time")
}

// The most that is played: beyond it neither a day nor the memory would do.
const (
	mostHosts       = 1000
	mostHostSeconds = 20_000_000
	mostHours       = 10 * 366 * 24
	mostLoad        = 10_000
	mostTenants     = 100_000
	mostQuota       = 1 << 40
	mostPatience    = 24 * time.Hour
)

func (o *Options) check(c *cobra.Command) error {
	mostMB := gate.PiB.FloorMiB()
	switch {
	case o.Hosts < 1 || o.Hosts > mostHosts || o.Jobs < 1:
		return fmt.Errorf("--hosts %d --jobs %d: both must be at least 1, and --hosts at most %d", o.Hosts, o.Jobs, mostHosts)
	case o.HostMB < 1 || o.HostMB > mostMB || o.ConfiguredMB < 1 || o.ConfiguredMB > mostMB:
		return fmt.Errorf("--host-mb %d --configured-mb %d: both are MiB from 1 to %d", o.HostMB, o.ConfiguredMB, mostMB)
	case o.ConfiguredMB > o.HostMB:
		return fmt.Errorf("--configured-mb %d is more than --host-mb %d: no host admits a sandbox that is larger than itself; give a larger host or a smaller sandbox", o.ConfiguredMB, o.HostMB)
	case !(o.Hours > 0 && o.Hours <= mostHours):
		return fmt.Errorf("--hours %g: above 0", o.Hours)
	case !(o.Load > 0 && o.Load <= mostLoad):
		return fmt.Errorf("--load %g: sandboxes per host, above 0 and at most %d", o.Load, mostLoad)
	case o.Tenants < 1 || o.Tenants > mostTenants:
		return fmt.Errorf("--tenants %d: from 1 to %d", o.Tenants, mostTenants)
	case o.Quota < 0 || o.Quota > mostQuota:
		return fmt.Errorf("--quota %d: sandboxes of one tenant, at least 1; or 0 for twice an even part", o.Quota)
	case o.Patience < time.Second || o.Patience > mostPatience:
		return fmt.Errorf("--patience %v: from 1s to %v", o.Patience, mostPatience)
	case o.Alike && !o.Batched && o.Arrivals == "":
		return errors.New("--alike: singles are like nobody; give --batched or --arrivals with it")
	case (o.Runs == "") != (o.Memory == ""):
		return errors.New("--runs and --memory go together")
	}
	return o.checkArrivals(c)
}

// checkArrivals refuses what a file of arrivals says itself.
func (o *Options) checkArrivals(c *cobra.Command) error {
	if o.Arrivals == "" {
		return nil
	}
	for _, name := range []string{"load", "batched"} {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--%s with --arrivals: the file says what is asked for, and when; leave one of them out", name)
		}
	}
	if !c.Flags().Changed("hours") {
		o.Hours = 0
	}
	return nil
}

// checkSize proves that a play ends.
func (o *Options) checkSize() error {
	switch seconds := o.Hours * 3600; {
	case math.Round(seconds) < 1:
		return fmt.Errorf("--hours %g: a play has at least one second", o.Hours)
	case seconds*float64(o.Hosts) > mostHostSeconds:
		return fmt.Errorf("%.4g h on %d hosts are %.0f host-seconds, and at most %d are played: give fewer --hours or --hosts", o.Hours, o.Hosts, seconds*float64(o.Hosts), mostHostSeconds)
	}
	return nil
}
