package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/internal/discover"
)

// gateCommand is the host gate alone: what a node daemon does in Go with client/boot.
func (a *app) gateCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "gate",
		Short: "Ask the agent of this machine for room, without a replica",
		Long: `Asks the agent of this machine, at its socket, and no replica: Reserve → Redeem → Track →
Done. What a node daemon does in Go with client/boot these commands do by hand. Root may, the
agent's own user, and the group that host.reserve_group names.`,
		Example: `  plimsoll gate run --memory 512MiB -- ./serve
  plimsoll gate reserve --memory 4GiB --stateful > ticket.json`,
	}, a.gateReserve(), a.gateRenew(), a.gateRelease(), a.gateRun())
}

// askFlags are those of an ask.
type askFlags struct {
	memory, key, class string
	cpu                float64
	stateful           bool
	labels             map[string]string
	dims               map[string]int64
}

func (f *askFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.memory, "memory", "", "configured size, as in 4GiB (required)")
	flags.Float64Var(&f.cpu, "cpu", 0, "cores; they refuse nothing")
	flags.BoolVar(&f.stateful, "stateful", false, "charge it in full, and never reclaim it")
	flags.StringVar(&f.key, "key", "", "your own name for it, for people")
	flags.StringVar(&f.class, "class", "", "a name for its kind, for people")
	flags.StringToStringVar(&f.labels, "label", nil, "a `name=value` that this host must carry")
	flags.StringToInt64Var(&f.dims, "dim", nil, "a `name=amount` that it takes of a dimension")
	for _, name := range []string{"label", "dim"} {
		flags.Lookup(name).DefValue = "" // else the help shows an empty map as a default
	}
}

func (f *askFlags) ask() (boot.Ask, error) {
	size, err := parseMemory(f.memory)
	if f.memory == "" {
		err = errors.New("it is missing: write a size, as in 512MiB")
	}
	if err != nil {
		return boot.Ask{}, fmt.Errorf("--memory: %w", err)
	}
	return boot.Ask{
		MemoryMB: size, CPU: f.cpu, Stateful: f.stateful, Key: f.key, Class: f.class, Labels: f.labels, Dims: f.dims,
	}, nil
}

// reservation is what is shown of a boot.Reservation. Its ticket boots: it is shown to who
// asked for it, and nowhere else.
type reservation struct {
	ID          string `json:"id"`
	Epoch       int64  `json:"epoch"`
	Host        string `json:"host"`
	Ticket      string `json:"ticket"`
	MemoryMB    int64  `json:"memory_mb"`
	NeedMB      int64  `json:"need_mb"`
	ExpiresInMS int64  `json:"expires_in_ms"`
}

func (a *app) showReservation(r boot.Reservation) error {
	if a.json() {
		return writeJSON(a.stdout, reservation{r.ID, r.Epoch, r.Host, r.Ticket, r.MemoryMB, r.NeedMB, r.ExpiresIn.Milliseconds()})
	}
	_, err := fmt.Fprintln(a.stdout, r.Ticket)
	if err == nil {
		fmt.Fprintf(a.stderr, "%s: %s MiB are set aside on host %s for %s\n", r.ID, grouped(r.NeedMB), r.Host, seconds(r.ExpiresIn))
	}
	return err
}

func (a *app) gateReserve() *cobra.Command {
	var f askFlags
	cmd := &cobra.Command{
		Use:   "reserve --memory SIZE",
		Short: "Have memory set aside, and print the ticket",
		Long: `Has memory set aside on this machine and prints the ticket, which whoever boots redeems. What
nobody redeems or renews in time lapses by itself.`,
		Example: `  plimsoll gate reserve --memory 4GiB > ticket
  plimsoll gate reserve --memory 4GiB --stateful -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask, err := f.ask()
			if err != nil {
				return mistake(cmd, "%s", err)
			}
			return a.withSeam(func(c boot.Client) error {
				r, err := c.Reserve(cmd.Context(), ask)
				if err != nil {
					return err
				}
				return a.showReservation(r)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) gateRenew() *cobra.Command {
	return a.withTicket(&cobra.Command{
		Use: "renew [FILE]", Short: "Keep a reservation, and print its new ticket",
		Long:    "Keeps what plimsoll gate reserve gave, for as long as a new one, and prints its new ticket.\nThe ticket is read from a file or from standard input.",
		Example: "  plimsoll gate renew ticket > again",
	}, func(ctx context.Context, c boot.Client, text string) error {
		r, err := c.Renew(ctx, text)
		if err != nil {
			return err
		}
		return a.showReservation(r)
	})
}

func (a *app) gateRelease() *cobra.Command {
	return a.withTicket(&cobra.Command{
		Use: "release [FILE]", Short: "Give a reservation back, or stop what was booted with it",
		Long:    "Gives back what plimsoll gate reserve gave; a sandbox that was booted with it is stopped.\nThe ticket is read from a file or from standard input.",
		Example: "  plimsoll gate release ticket",
	}, func(ctx context.Context, c boot.Client, text string) error { return c.Release(ctx, text) })
}

// withTicket makes a command that does something with a ticket, which is no argument: every
// user of the machine could read it there.
func (a *app) withTicket(cmd *cobra.Command, do func(context.Context, boot.Client, string) error) *cobra.Command {
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := readTicket(cmd, args)
		if err != nil {
			return err
		}
		return a.withSeam(func(c boot.Client) error { return do(cmd.Context(), c, text.Reveal()) })
	}
	return cmd
}

func (a *app) gateRun() *cobra.Command {
	var f askFlags
	cmd := &cobra.Command{
		Use:   "run --memory SIZE -- CMD [ARG]...",
		Short: "Reserve, boot a command with the agent's driver, and exit as it does",
		Example: `  plimsoll gate run --memory 512MiB -- ./serve
  plimsoll gate run --memory 2GiB --stateful --key db -- postgres -D data`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ask, err := f.ask()
			switch {
			case err != nil:
				return mistake(cmd, "%s", err)
			case len(args) == 0:
				return mistake(cmd, "there is no command to run: put it behind --, as in: plimsoll gate run --memory 512MiB -- sleep 60")
			}
			return a.withSeam(func(c boot.Client) error { return a.gateBoot(cmd.Context(), c, ask, args) })
		},
	}
	cmd.Flags().SetInterspersed(false)
	f.add(cmd)
	return cmd
}

func (a *app) gateBoot(ctx context.Context, c boot.Client, ask boot.Ask, argv []string) error {
	command, err := commandOf(argv)
	if err != nil {
		return err
	}
	signals, stop := takeSignals()
	defer stop()
	r, err := c.Reserve(ctx, ask)
	if err != nil {
		return err
	}
	numbers, over := passOn(signals)
	defer over()
	end, err := c.Run(ctx, r.Ticket, command, a.stdout, a.stderr, numbers)
	if err != nil {
		undo, cancel := detached(ctx)
		defer cancel()
		c.Release(undo, r.Ticket) // else it lapses by itself
		return err
	}
	return exit(a.stderr, end)
}

// seam is the boot seam of this machine: the environment's, the note's, or where an agent
// has it by default.
func (a *app) seam() (boot.Client, error) {
	if socket := os.Getenv("PLIMSOLL_SOCKET"); socket != "" {
		return boot.Client{Socket: socket}, nil
	}
	dir, err := filepath.Abs(first(a.dataDir, os.Getenv("PLIMSOLL_DATA_DIR"), discover.DefaultDataDir()))
	if err != nil {
		return boot.Client{}, err
	}
	if note, err := discover.Read(dir); err == nil && note.Socket != "" {
		return boot.Client{Socket: note.Socket}, nil
	}
	return boot.Client{Socket: filepath.Join(dir, "agent.sock")}, nil
}

func (a *app) withSeam(do func(boot.Client) error) error {
	c, err := a.seam()
	if err != nil {
		return err
	}
	return atSeam(c, do(c))
}

// atSeam says what to do where no agent is.
func atSeam(c boot.Client, err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return &Failure{ExitUnavailable, fmt.Errorf("the agent cannot be reached at %s: %w", c.Socket, op.Err), "is `plimsoll agent` (or `plimsoll up`) running here? Else name its socket in PLIMSOLL_SOCKET"}
	}
	return err
}
