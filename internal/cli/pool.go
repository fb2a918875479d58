package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// longestFor is the longest that the contract lets a pool be set for.
const longestFor = 720 * time.Hour

func (a *app) poolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Set a pool's cap for a while, hold it, resume it",
		Long: `Sets a pool's cap for a while, or lets nothing new in. It ends by itself or by resume, is
written down for plimsoll audit, and leaves the configuration as it is. Nothing that runs is
ended by it. Needs the role operator.`,
		Example: `  plimsoll pool set browser --cap 4 --for 2h --reason "the provider throttles us"
  plimsoll pool hold browser --reason "bad image"
  plimsoll pool resume browser --reason "image mended"`,
	}
	return group(cmd, a.poolSet(), a.poolHold(), a.poolResume())
}

func (a *app) poolSet() *cobra.Command {
	var (
		slots  int64
		lasts  time.Duration
		reason string
	)
	cmd := &cobra.Command{
		Use:   "set NAME --cap N --for TIME --reason TEXT",
		Short: "Set a pool's cap for a while",
		Long: `Sets a pool's cap for a while; then the configured one is in force again. A lower cap ends
nothing that runs: slots that come free are not given out until fewer than the cap are held.
Caps that would sum to more than the ceiling are refused.`,
		Example: `  plimsoll pool set browser --cap 4 --for 2h --reason "the provider throttles us"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if slots < 1 {
				return mistake(cmd, "--cap %d: at least 1; plimsoll pool hold %s lets nothing in", slots, args[0])
			}
			if lasts < time.Second || lasts > longestFor {
				return mistake(cmd, "--for %s: between 1s and 720h, as in --for 2h", lasts)
			}
			return a.changePool(func(c *client.Client) (*api.PoolChange, error) {
				return c.OverridePool(cmd.Context(), args[0], slots, lasts, reason)
			})
		},
	}
	cmd.Flags().Int64Var(&slots, "cap", 0, "how many slots the pool has meanwhile")
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long, as in 30m or 2h; at most 720h")
	addReason(cmd, &reason)
	required(cmd, "cap", "for")
	return cmd
}

func (a *app) poolHold() *cobra.Command {
	var (
		lasts  time.Duration
		reason string
	)
	cmd := &cobra.Command{
		Use:   "hold NAME --reason TEXT",
		Short: "Let nothing new into a pool",
		Long: `Lets nothing new into a pool, until it is resumed or for as long as is said. What runs goes
on, and who waits keeps the place. It takes the place of a cap that was set for a while, which
does not come back with resume.`,
		Example: `  plimsoll pool hold browser --reason "bad image"
  plimsoll pool hold browser --for 30m --reason "the provider is being repaired"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lasts != 0 && (lasts < time.Second || lasts > longestFor) {
				return mistake(cmd, "--for %s: between 1s and 720h, or leave it out", lasts)
			}
			return a.changePool(func(c *client.Client) (*api.PoolChange, error) {
				return c.HoldPool(cmd.Context(), args[0], lasts, reason)
			})
		},
	}
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long, as in 30m; left out, until it is resumed")
	addReason(cmd, &reason)
	return cmd
}

func (a *app) poolResume() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "resume NAME --reason TEXT",
		Short:   "Take back what was set of a pool, or that it is held",
		Example: `  plimsoll pool resume browser --reason "image mended"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changePool(func(c *client.Client) (*api.PoolChange, error) {
				return c.ResumePool(cmd.Context(), args[0], reason)
			})
		},
	}
	addReason(cmd, &reason)
	return cmd
}

func addReason(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "why, for whoever looks at it or at plimsoll audit")
	required(cmd, "reason")
}

// required makes the lack of a flag a mistake on the command line.
func required(cmd *cobra.Command, names ...string) {
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range names {
			if f := cmd.Flags().Lookup(name); !f.Changed || f.Value.String() == "" {
				return mistake(cmd, "--%s is missing: %s", name, f.Usage)
			}
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

func (a *app) changePool(change func(*client.Client) (*api.PoolChange, error)) error {
	c, _, err := a.connect()
	if err != nil {
		return err
	}
	done, err := change(c)
	switch {
	case err != nil:
		return err
	case a.json():
		return writeJSON(a.stdout, done)
	}
	was := "no cap"
	if done.Was.Capped {
		was = "cap " + grouped(done.Was.Cap)
	}
	_, err = fmt.Fprintf(a.stdout, "pool %s: %s\nbefore: %s; %s held, %s waiting\n", plain(done.Pool.Name), plain(inForce(done.Pool, time.Now())),
		was, plural(done.Pool.Busy, "slot is", "slots are"), grouped(done.Pool.Waiting))
	return err
}

// inForce says what cap a pool has, and why if that is not the configured one.
func inForce(p api.Pool, now time.Time) string {
	switch {
	case p.Override != nil:
		return overrideNote(p, *p.Override, now)
	case p.Capped:
		return "cap " + grouped(p.Cap) + ", as configured"
	}
	return "no cap, as configured"
}
