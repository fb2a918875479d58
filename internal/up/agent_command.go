package up

import (
	"errors"

	"github.com/spf13/cobra"
)

// AgentCommand is `plimsoll agent`.
func AgentCommand(version string) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "agent",
		Short: "Run this machine's agent: the gate of one host",
		Long: `Run this machine's agent, which alone says what this host can still promise.

Without a replica it is a gate of its own: a node daemon asks it at its socket to Reserve,
Redeem, Track and Done (Go: client/boot), or with plimsoll gate. Root may reserve, the
agent's own user, and the group that host.reserve_group names; whoever has a ticket may
boot with it. Sandboxes outlive it: the next start re-adopts them.`,
		Example: `  plimsoll agent
  plimsoll agent --config plimsoll.yaml
  PLIMSOLL_HOST_BUDGET=4GiB plimsoll agent --data-dir ./state`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := f.options(c, version)
			if err != nil {
				return err
			}
			if o.File.Local.Host == nil {
				return errors.New("the configuration has no host section, so there is nothing for an agent to watch; add host: {}")
			}
			return RunAlone(c.Context(), o)
		},
	}
	c.Flags().StringVar(&f.path, "config", "", "configuration `file`; see plimsoll config example")
	c.Flags().StringVar(&f.level, "log", "info", "what to log on standard error: debug, info, warn or error")
	return c
}
