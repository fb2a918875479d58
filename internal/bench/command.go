package bench

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/storm"
)

// Command is `plimsoll bench`.
func Command(version string) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the decision, the ticket, the store and waiting clients on this machine",
		Long: `Measure the decision, the ticket, the store and waiting clients on this machine.

Timings depend on the machine; ratios hold between peers of one run, on the same table
and the same stream of requests.`,
		Example: `  plimsoll bench pick --hosts 100000 -o json
  plimsoll bench ticket
  plimsoll bench store --store sqlite
  plimsoll bench admit --mode batch --record host
  plimsoll bench sample -o json
  plimsoll bench storm --mode queue`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(pickCommand(), ticketCommand(), storeCommand(), admitCommand(), fleetCommand(), sampleCommand(), hostsCommand(), storm.BenchCommand(version))
	return c
}

func pickCommand() *cobra.Command {
	var o PickOptions
	c := &cobra.Command{
		Use:     "pick",
		Short:   "An exact pick, reserve and release in process, against other ways to choose",
		Example: "  plimsoll bench pick --hosts 100000 -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Hosts < 1 || o.Ops < 1 {
				return cli.Mistake(c, "--hosts %d --ops %d: both must be at least 1", o.Hosts, o.Ops)
			}
			r, err := Pick(o)
			return show(c, r, err)
		},
	}
	c.Flags().IntVar(&o.Hosts, "hosts", 100_000, "hosts in the table")
	c.Flags().IntVar(&o.Ops, "ops", 400_000, "timed picks")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of the fleet and the requests")
	return c
}

func ticketCommand() *cobra.Command {
	var o TicketOptions
	c := &cobra.Command{
		Use:     "ticket",
		Short:   "Mint and verify a ticket",
		Example: "  plimsoll bench ticket -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Ops < 1 {
				return cli.Mistake(c, "--ops %d: must be at least 1", o.Ops)
			}
			r, err := Ticket(o)
			return show(c, r, err)
		},
	}
	c.Flags().IntVar(&o.Ops, "ops", 400_000, "timed mints, and as many verifications")
	return c
}

func storeCommand() *cobra.Command {
	var o StoreOptions
	c := &cobra.Command{
		Use:   "store",
		Short: "Durable claims of slots of one hot pool, by many callers at once",
		Long: `Durable claims of slots of one hot pool, by many callers at once.

Each caller claims for a new key as soon as its last claim is answered; an answer means that
the claim is on the disk. claims_per_s, p50_us and p99_us are of claims alone, after a warm-up
of a quarter as many: nothing is given back while they are timed, so that the pool fills up.
pairs_per_s is a second run, in which each claim is followed by its release; a pair is two
durable transitions and is counted once.

The database is the bench's own and is removed afterwards: a file in the folder for temporary
files (set TMPDIR to measure another disk), or a schema beside all else in a PostgreSQL database.`,
		Example: `  plimsoll bench store -o json
  plimsoll bench store --store postgres://plimsoll@db.internal/plimsoll --callers 32`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Callers < 1 || o.Claims < 1 {
				return cli.Mistake(c, "--callers %d --claims %d: both must be at least 1", o.Callers, o.Claims)
			}
			if !isStore(o.Store) {
				return cli.Mistake(c, "%s", noStore)
			}
			ctx, stop := cli.UntilStopped(c)
			defer stop()
			r, err := Store(ctx, o)
			return show(c, r, err)
		},
	}
	c.Flags().StringVar(&o.Store, "store", embedded, "sqlite, or a PostgreSQL `address`, as in postgres://…")
	c.Flags().IntVar(&o.Callers, "callers", 32, "how many claim at once")
	c.Flags().IntVar(&o.Claims, "claims", 30_000, "timed claims, and as many pairs")
	return c
}

const noStore = "--store: write sqlite, or postgres://user@host/database"

func isStore(s string) bool {
	return s == embedded || strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

func admitCommand() *cobra.Command {
	var o AdmitOptions
	c := &cobra.Command{
		Use:   "admit",
		Short: "Whole admissions over HTTP: claim, pick, the agent's reservation, the ticket",
		Long: `Whole admissions over HTTP: claim, pick, the agent's reservation, the ticket.

Everything is started here and shares this machine: a store in a scratch database, agents
with their real ledgers and state on disk behind their streams, replicas behind HTTP on
loopback, and callers. The limits of the agents' hosts are not measured but stated, 32 TiB each, so that
no run fills them; nothing is given back while it runs.

With --rate calls are due at fixed instants, and their times count from there.`,
		Example: `  plimsoll bench admit --mode http --record host -o json
  plimsoll bench admit --mode batch --record host --replicas 2
  plimsoll bench admit --record store --rate 1000 --for 20s`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return cli.Mistake(c, "%w", err)
			}
			if !isStore(o.Store) {
				return cli.Mistake(c, "%s", noStore)
			}
			ctx, stop := cli.UntilStopped(c)
			defer stop()
			if f, ok := c.ErrOrStderr().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				o.Progress = f
			}
			cli.RoomyHeap() // as plimsoll server has it
			r, err := Admit(ctx, o)
			return show(c, r, err)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Mode, "mode", OneByOne, "`http`, one by one, or batch")
	f.StringVar(&o.Record, "record", RecordStore, "who records the class: `store` or host")
	f.StringVar(&o.Store, "store", embedded, "sqlite, or a PostgreSQL `address`, as in postgres://…")
	f.IntVar(&o.Agents, "agents", 8, "hosts")
	f.IntVar(&o.Replicas, "replicas", 1, "replicas, which the callers share")
	f.IntVar(&o.Callers, "callers", 0, "how many ask at once; 0: 64, in batches 8")
	f.IntVar(&o.Batch, "batch", 64, "asks in one batch, up to 256")
	f.IntVar(&o.Rate, "rate", 0, "admissions a second in all; 0: as fast as they are answered")
	f.DurationVar(&o.For, "for", 5*time.Second, "how long is timed")
	return c
}

func fleetCommand() *cobra.Command {
	var o FleetOptions
	c := &cobra.Command{
		Use:   "fleet",
		Short: "What a replica spends on hearing many hosts",
		Long: `What a replica spends on hearing many hosts.

A second process plays the hosts: real ones without a machine, each behind a stream of its own
on loopback, whose word moves every ten seconds (--every). This process is one whole replica over
a store; its processor time and memory are what is printed. first_yes_ms and all_heard_ms are
from its cold start. Each stream takes a file descriptor at both ends: see ulimit -n.`,
		Example: "  plimsoll bench fleet --hosts 10000 -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Hosts < 1 || o.Every < 100*time.Millisecond || o.For < time.Second {
				return cli.Mistake(c, "--hosts must be at least 1, --every at least 100ms, --for at least 1s")
			}
			if !isStore(o.Store) {
				return cli.Mistake(c, "%s", noStore)
			}
			ctx, stop := cli.UntilStopped(c)
			defer stop()
			o.settle = heartbeat
			r, err := Fleet(ctx, o)
			return show(c, r, err)
		},
	}
	c.Flags().IntVar(&o.Hosts, "hosts", 10_000, "hosts of one replica")
	c.Flags().DurationVar(&o.Every, "every", 10*time.Second, "how often each host's verdict moves")
	c.Flags().DurationVar(&o.For, "for", 30*time.Second, "how long is measured")
	c.Flags().StringVar(&o.Store, "store", embedded, "sqlite, or a PostgreSQL `address`, as in postgres://…")
	return c
}

func sampleCommand() *cobra.Command {
	var o SampleOptions
	c := &cobra.Command{
		Use:   "sample",
		Short: "What an agent spends on measuring its sandboxes",
		Long: `What an agent spends on measuring its sandboxes.

Small processes that sleep stand for the sandboxes. An agent's own sampler measures all of them
once a sample, limits and arithmetic included: by /proc, as it does a bare VMM, and by a cgroup
each, which needs root. smaps_rollup is the file that would tell a process's memory more
exactly, read for each of them, to compare. Then plimsoll agent is started as it is on a host,
with its usual pace, and watches 200 of them (--agent): its processor time and memory are told.

What was made for it, processes, cgroups and files, is removed at the end.`,
		Example: `  plimsoll bench sample -o json
  plimsoll bench sample --sandboxes 200 --agent 0`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Sandboxes < 1 || o.Samples < 1 || o.Watched < 0 || o.For < time.Second {
				return cli.Mistake(c, "--sandboxes and --samples must be at least 1, --agent at least 0, --for at least 1s")
			}
			ctx, stop := cli.UntilStopped(c)
			defer stop()
			r, err := Sample(ctx, o)
			return show(c, r, err)
		},
	}
	c.Flags().IntVar(&o.Sandboxes, "sandboxes", 1000, "how many are measured in one sample")
	c.Flags().IntVar(&o.Samples, "samples", 100, "timed samples, each way")
	c.Flags().IntVar(&o.Watched, "agent", 200, "how many a whole agent watches; 0: none is started")
	c.Flags().DurationVar(&o.For, "for", 20*time.Second, "how long that agent is looked at")
	return c
}

// hostsWord names the process that plays the hosts of bench fleet.
const hostsWord = "fleet-hosts"

func hostsCommand() *cobra.Command {
	return &cobra.Command{
		Use: hostsWord, Short: "The hosts of bench fleet, which starts this itself", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return Hosts(c.Context(), c.InOrStdin(), c.OutOrStdout()) },
	}
}

// show prints a result in the form that -o asks for.
func show(c *cobra.Command, r cli.Printed, err error) error {
	if err != nil {
		return err
	}
	return cli.Show(c, r)
}
