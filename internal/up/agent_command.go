package up

import (
	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/observe"
	"github.com/plimsoll-project/plimsoll/internal/standin"
)

// AgentCommand is `plimsoll agent`.
func AgentCommand(version string) *cobra.Command {
	var f flags
	var observes, standsIn bool
	var metrics string
	var seen config.Observe
	c := &cobra.Command{
		Use:   "agent",
		Short: "Run this machine's agent: the gate of one host",
		Long: `Run this machine's agent, which alone says what this host can still promise.

Without a replica it is a gate of its own: a node daemon asks it at its socket to Reserve,
Redeem, Track and Done (Go: client/boot), or with plimsoll gate. Root may reserve, the
agent's own user, and the group that host.reserve_group names; whoever has a ticket may
boot with it. Sandboxes outlive it: the next start re-adopts them.

With agent.replicas it registers at any of them that answers, and all of them dial it at
agent.listen. The first start joins with the token in the file that agent.join_token_file
names (plimsoll host token create makes one), or PLIMSOLL_AGENT_JOIN_TOKEN_FILE. Later starts need
no replica: what it remembers runs and boots while it looks for one.

With --observe it only measures what runs, found by cgroup parent or by a pattern, whoever
started it, and plimsoll observe shows what each mode would hold of it. It writes nothing
outside its data directory, and signals, moves, limits and scores nothing. A file that says
host.enforcement: observe, and names no replicas, has the same effect.

With --metrics, or metrics: ADDRESS of the file, the host's figures are served to Prometheus.

With --stand-in it keeps the ledgers of the hosts of stand_in.hosts, which cannot run an agent,
by the heartbeats that they post to its own listener at /v1/reports. Replicas dial each of them
as they do an agent: at agent.listen, and the ports that follow it; each joins with the token
in data_dir/hosts/ID/join_token. ` + standin.Limits,
		Example: `  plimsoll agent
  plimsoll agent --config plimsoll.yaml
  plimsoll config example --agent > agent.yaml && plimsoll agent --config agent.yaml
  PLIMSOLL_HOST_BUDGET=4GiB plimsoll agent --data-dir ./state
  plimsoll agent --stand-in --config stand-in.yaml
  plimsoll agent --observe --match 'firecracker|qemu-system'
  plimsoll agent --observe --match firecracker --metrics 127.0.0.1:7074
  plimsoll agent --observe --cgroup-parent /machine.slice --default-size 2GiB`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := f.options(c, version)
			if err != nil {
				return err
			}
			if metrics != "" {
				if err := overlay(c, &o.File.Local, "metrics", metrics); err != nil {
					return err
				}
			}
			if observes || onlyObserves(&o.File.Local) {
				observing(c, &o, seen)
				return RunObserver(c.Context(), o)
			}
			if seen != (config.Observe{}) {
				return cli.Mistake(c, "those flags say what to observe: add --observe")
			}
			if standsIn {
				return RunStandIn(c.Context(), o)
			}
			if o.File.Local.Host == nil {
				return unfit("host: the configuration has no such section, so there is nothing for an agent to watch", "add host: {}")
			}
			return RunAgent(c.Context(), o)
		},
	}
	c.Flags().StringVar(&f.path, "config", "", "configuration `file`; see plimsoll config example")
	c.Flags().StringVar(&f.level, "log", "info", "what to log on standard error: debug, info, warn or error")
	c.Flags().StringVar(&metrics, "metrics", "", "serve GET /metrics for Prometheus at this `address`, as in 127.0.0.1:7074 (default: nowhere)")
	c.Flags().BoolVar(&observes, "observe", false, "measure only what runs, and touch nothing")
	c.Flags().BoolVar(&standsIn, "stand-in", false, "keep the ledgers of hosts that cannot run an agent")
	observe.AddFlags(c, &seen)
	return c
}

// onlyObserves says whether the file has this machine observed, and by nobody's order but its
// own: with replicas it is one of their hosts, which promises nothing.
func onlyObserves(l *config.Local) bool {
	return l.Host != nil && l.Host.Enforcement == host.Observe && !l.HasReplicas()
}

// observing lays the flags over what the file says.
func observing(c *cobra.Command, o *Options, seen config.Observe) {
	if o.File.Local.Host == nil {
		o.File.Local.Host = config.Default("").Local.Host
	}
	observe.Overlay(&o.File.Local.Host.Observe, seen, c)
}
