package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// deed is what an operator says of a host.
type deed struct {
	use, short, long, example string
	needsReason               bool
	do                        func(*client.Client) func(ctx context.Context, id, reason string) (*api.HostChange, error)
}

func (a *app) hostCordon() *cobra.Command {
	return a.hostDeed(deed{
		use: "cordon HOST", short: "Let a host take nothing new",
		long: `Lets a host take nothing new, on every replica at once. What was promised there boots, and what
runs goes on. To say it again changes nothing.`,
		example: `  plimsoll host cordon host-1
  plimsoll host cordon host-1 --reason "odd disk errors"`,
		do: func(c *client.Client) func(context.Context, string, string) (*api.HostChange, error) {
			return c.CordonHost
		},
	})
}

func (a *app) hostUncordon() *cobra.Command {
	return a.hostDeed(deed{
		use: "uncordon HOST", short: "Let a cordoned host take new admissions again",
		long:    "Lets a cordoned host take new admissions again. A draining host never turns back.",
		example: `  plimsoll host uncordon host-1`,
		do: func(c *client.Client) func(context.Context, string, string) (*api.HostChange, error) {
			return c.UncordonHost
		},
	})
}

func (a *app) hostBury() *cobra.Command {
	return a.hostDeed(deed{
		use: "bury HOST --reason TEXT", short: "Say that nothing runs on a host any more",
		long: `Says that nothing runs on a host any more: that its machine is off, or that it is drained and
empty. What the store still has there is lost, and its keys may be asked for anew, stateful
ones too: be sure, or two of one key may run. While the host is heard it is refused, unless
it is draining and empty. The host's credential is void; it joins anew with a new token.`,
		example: `  plimsoll host bury host-1 --reason "mainboard burnt"
  plimsoll host drain host-1 --wait --reason "kernel" && plimsoll host bury host-1 --reason "kernel"`,
		needsReason: true,
		do: func(c *client.Client) func(context.Context, string, string) (*api.HostChange, error) {
			return c.BuryHost
		},
	})
}

func (a *app) hostDeed(d deed) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use: d.use, Short: d.short, Long: d.long + "\nIt is written down for plimsoll audit. Needs the role operator.", Example: d.example,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			change, err := d.do(c)(cmd.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.showHostChange(change)
		},
	}
	if d.needsReason {
		addReason(cmd, &reason)
	} else {
		cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever reads the audit")
	}
	return cmd
}

func (a *app) showHostChange(h *api.HostChange) error {
	if a.json() {
		return writeJSON(a.stdout, h)
	}
	line := fmt.Sprintf("%s is %s", plain(h.ID), h.State)
	if h.Was != h.State {
		line += fmt.Sprintf(", and was %s", h.Was)
	}
	if h.Lost > 0 {
		line += fmt.Sprintf("; %s lost", plural(h.Lost, "admission is", "admissions are"))
	}
	if text := holds(h); text != "" {
		line += "; " + text
	}
	if h.Warning != "" {
		fmt.Fprintln(a.stderr, "warning: "+plain(h.Warning))
	}
	_, err := fmt.Fprintln(a.stdout, line)
	return err
}

// holds says what the store still has on a host; nothing for an empty one.
func holds(h *api.HostChange) string {
	if h.Unbooted+h.Running+h.Releasing == 0 {
		return ""
	}
	return fmt.Sprintf("%d not booted, %d running, %d ending", h.Unbooted, h.Running, h.Releasing)
}

func (a *app) hostDrain() *cobra.Command {
	var (
		reason string
		wait   bool
		within time.Duration
	)
	cmd := &cobra.Command{
		Use:   "drain HOST --reason TEXT [--wait]",
		Short: "Empty a host",
		Long: `Empties a host: it boots nothing any more, on every replica at once. What has not booted moves
when its caller next asks; what runs goes on until it ends by itself. There is no way back
but to bury the empty host and to join anew. To say it again changes nothing, and shows how
far it is; --wait shows that until it is empty. It is written down for plimsoll audit. Needs
the role operator.`,
		Example: `  plimsoll host drain host-1 --reason "kernel update"
  plimsoll host drain host-1 --reason "kernel update" --wait --within 2h`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			change, err := c.DrainHost(cmd.Context(), args[0], reason)
			if err == nil && wait {
				change, err = a.awaitDrained(cmd.Context(), c, change, reason, within)
			}
			if err != nil {
				return err
			}
			return a.showHostChange(change)
		},
	}
	addReason(cmd, &reason)
	cmd.Flags().BoolVar(&wait, "wait", false, "show how far it is until the host is empty")
	cmd.Flags().DurationVar(&within, "within", 0, "with --wait, how long at most; left out, for ever")
	return cmd
}

const drainLookEvery = 2 * time.Second

// awaitDrained says again what was said, which changes nothing, until the host is empty.
func (a *app) awaitDrained(ctx context.Context, c *client.Client, change *api.HostChange, reason string, within time.Duration) (*api.HostChange, error) {
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	id, told := change.ID, ""
	for holds(change) != "" {
		if text := holds(change); text != told {
			fmt.Fprintf(a.stderr, "%s: %s\n", plain(id), text)
			told = text
		}
		select {
		case <-time.After(drainLookEvery):
		case <-ctx.Done():
			return nil, &Failure{ExitNotNow, fmt.Errorf("host %s is not empty yet: %s", id, told), "plimsoll host drain " + id + " --wait again; it stays draining"}
		}
		next, err := c.DrainHost(ctx, id, reason)
		switch {
		case err == nil:
			change = next
		case ctx.Err() == nil && !mayPass(err):
			return nil, err
		}
	}
	return change, nil
}
