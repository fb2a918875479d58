package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/report"
	"github.com/plimsoll-project/plimsoll/pool"
)

// BenchCommand is `plimsoll bench storm`.
func BenchCommand(version string) *cobra.Command {
	o, to, mode := DefaultRealOptions(), "", bothModes
	c := &cobra.Command{
		Use:   "storm",
		Short: "Real clients at a real replica when far more is asked for than is freed",
		Long: `Real clients at a real replica when far more is asked for than is freed.

What sim storm plays, for real: --clients callers, each with a client and connections of its
own, come within --storm, --load times as many as are freed meanwhile, and then none. Each
waits for a slot with a patience of --deadline, holds it for its sandbox's life and gives it
back; nothing is booted. First in queue mode, then in refuse mode, each after --before at the
ordinary load. The same callers are then played in virtual time, to compare: see sim storm
--help for what the figures are. With the defaults it takes eleven minutes.

The replica is one of this process, over SQLite, unless --address names one that runs: then
--class is one of it in a pool without hosts that nobody else uses, --cap that pool's cap, and the
token that of --token-file or PLIMSOLL_TOKEN. Whoever interrupts it gives back all it holds.

Each client takes a file descriptor, and another one at the replica: see ulimit -n.`,
		Example: `  plimsoll bench storm
  plimsoll bench storm --mode queue --clients 200 --cap 20 -o json
  plimsoll bench storm --address http://127.0.0.1:7070 --token-file token --class build --cap 10 --clients 100
  plimsoll bench storm --report storm.html`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Modes, err = modes(mode); err == nil {
				err = o.check()
			}
			if err != nil {
				return cli.Mistake(c, "%w", err)
			}
			if o.Address != "" {
				if o.Token, err = cli.Token(c); err != nil {
					return err
				}
			}
			o.Version, o.Progress = version, cli.Progress(c.ErrOrStderr())
			return report.Play(c, to, func(ctx context.Context) (report.Paged, error) { return Run(ctx, o) })
		},
	}
	f := c.Flags()
	f.IntVar(&o.Clients, "clients", o.Clients, "clients of the storm")
	f.Int64Var(&o.Cap, "cap", o.Cap, "slots of the pool")
	f.Float64Var(&o.Load, "load", o.Load, "times what a full pool frees, in the storm")
	f.DurationVar(&o.Storm, "storm", o.Storm, "how long the storm lasts")
	f.DurationVar(&o.Deadline, "deadline", o.Deadline, "how long a client waits before it gives up")
	f.DurationVar(&o.Before, "before", o.Before, "how long callers come at the ordinary load before")
	f.StringVar(&mode, "mode", mode, "`queue`, refuse or both")
	f.StringVar(&o.Address, "address", "", "`address` of a replica that runs, as in http://127.0.0.1:7070; several, separated by commas")
	f.StringVar(&o.Class, "class", "", "`class` of that replica")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "what the draws follow from")
	report.Flag(c, &to)
	return c
}

const bothModes = "both"

func modes(word string) ([]pool.Mode, error) {
	switch word {
	case bothModes:
		return DefaultRealOptions().Modes, nil
	case string(pool.Queue), string(pool.Refuse):
		return []pool.Mode{pool.Mode(word)}, nil
	}
	return nil, fmt.Errorf("--mode %s: write %s, %s or %s", word, pool.Queue, pool.Refuse, bothModes)
}

// The most that is run: with more it is the machine that is measured.
const (
	mostClients  = 20_000
	longestReal  = time.Hour
	longestLife  = longestReal
	shortestLife = 100 * time.Millisecond
)

func (o *RealOptions) check() error {
	switch {
	case o.Clients < 1 || o.Clients > mostClients:
		return fmt.Errorf("--clients %d: 1 to %d", o.Clients, mostClients)
	case o.Cap < 1 || o.Cap > mostCap:
		return fmt.Errorf("--cap %d: 1 to %d slots", o.Cap, mostCap)
	case !(o.Load > 0 && o.Load <= mostLoad):
		return fmt.Errorf("--load %v: above 0 and at most %d", o.Load, mostLoad)
	case !within(time.Second, o.Storm, longestReal) || !within(time.Second, o.Deadline, longestReal) || !within(0, o.Before, longestReal):
		return fmt.Errorf("--storm %v --deadline %v --before %v: from 1s to %v, and before may be 0s", o.Storm, o.Deadline, o.Before, longestReal)
	case !within(shortestLife, o.Life(), longestLife):
		return fmt.Errorf("--cap %d --load %v --storm %v --clients %d: sandboxes would live for %v on average, from %v to %v can be run; more clients or fewer slots make it shorter",
			o.Cap, o.Load, o.Storm, o.Clients, o.Life().Round(time.Millisecond), shortestLife, longestLife)
	case o.Address == "" && o.Class != "":
		return errors.New("--class: only with --address; the replica of this process has its own")
	case o.Address != "" && o.Class == "":
		return errors.New("--address: name with --class what is to be asked for there")
	}
	return nil
}

func within(least, d, most time.Duration) bool { return least <= d && d <= most }

// Print writes the table for people.
func (r *RealResult) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d clients in %g s at a pool of %d slots that frees %.4g a second, patience %g s, seed %d\n\n",
		r.Clients, r.StormS, r.Cap, r.FreedPerS, r.DeadlineS, r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "mode\t\twaiters\tattempts each\tgave up\trecovery\thints within 20 %\tmost in a second\twait p50\tp99\tidle\t")
	for i := range r.Runs {
		one := &r.Runs[i]
		fmt.Fprintf(t, "%s\tmeasured\t%s\t\n", one.Mode, strings.Join(one.Measured.cells(), "\t"))
		fmt.Fprintf(t, "%s\tplayed\t%s\t\n", one.Mode, strings.Join(one.Played.cells(), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Runs {
		one := &r.Runs[i]
		fmt.Fprintf(w, "\nmode %s: %d connections, at most %d at once; a create took %.3g ms (p50) and %.3g ms (p99); first hints within 20 %%: %.1f %%",
			one.Mode, one.Connections, one.MostOpen, one.PostP50, one.PostP99, 100*one.FirstRight)
		if one.Errors > 0 {
			fmt.Fprintf(w, "\n  %d errors, the first: %s", one.Errors, one.FirstError)
		}
	}
	_, err := fmt.Fprintf(w, "\nthe backlog could be empty %.1f s after the storm began\n", r.EmptyAfterS)
	return err
}
