package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) modeCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "mode",
		Short: "Take Plimsoll out of force without one lost boot, and put it back",
		Long: `In shadow everything goes on being computed, counted and told, and nothing is refused for want
of memory, of a slot or of quota; hosts boot what has no ticket, too. Counts stay true. What an
operator took out of force stays so until it is put back; then the configuration is in force
again, nothing that runs is ended, and whoever is over its line or cap admits nothing until it
is below. It is written down for plimsoll audit. Needs the role operator, and a replica with its
store: without them, plimsoll bypass.`,
		Example: `  plimsoll mode shadow --all --reason "creates are refused and we do not know why"
  plimsoll mode show
  plimsoll mode enforce --all --reason "it was the quota"`,
	}, a.modeShow(), a.modeCompare(), a.modeSet(api.ModeRequestModeShadow, "Refuse nothing for want of room", `  plimsoll mode shadow --all --reason "creates are refused"
  plimsoll mode shadow --pool browser --reason "a fair"`),
		a.modeSet(api.ModeRequestModeEnforce, "Put back what the configuration says", `  plimsoll mode enforce --all --reason "it is over"`))
}

func (a *app) modeShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "What is enforced, and what would have been refused", Args: cobra.NoArgs,
		Example: "  plimsoll mode show",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			report, err := c.Mode(cmd.Context())
			if err != nil {
				return err
			}
			return a.showMode(report)
		},
	}
}

func (a *app) modeSet(to api.ModeRequestMode, short, example string) *cobra.Command {
	q := api.ModeRequest{Mode: to}
	var all, quotas bool
	var pool, host string
	cmd := &cobra.Command{
		Use:   string(to) + " --all|--quotas|--pool NAME|--host ID --reason TEXT",
		Short: short, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			targets := 0
			for _, t := range []struct {
				on    bool
				scope api.ModeRequestScope
				name  string
			}{{all, "all", ""}, {quotas, "quotas", ""}, {pool != "", "pool", pool}, {host != "", "host", host}} {
				if t.on {
					q.Scope, q.Name = t.scope, t.name
					targets++
				}
			}
			if targets != 1 {
				return mistake(cmd, "say one of --all, --quotas, --pool NAME and --host ID")
			}
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			report, err := c.SetMode(cmd.Context(), q)
			if err != nil {
				return err
			}
			return a.showMode(report)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every pool, the quotas and every host, also those that come later")
	cmd.Flags().BoolVar(&quotas, "quotas", false, "the quotas of all tenants")
	cmd.Flags().StringVar(&pool, "pool", "", "this pool alone")
	cmd.Flags().StringVar(&host, "host", "", "this host alone")
	addReason(cmd, &q.Reason)
	return cmd
}

func (a *app) showMode(r *api.ModeReport) error {
	if a.json() {
		return writeJSON(a.stdout, r)
	}
	for _, o := range r.Orders {
		fmt.Fprintf(a.stdout, "in shadow by order: %s, by %s (%s)\n", plain(strings.TrimSpace(o.Scope+" "+o.Name)), plain(o.By), plain(o.Reason))
	}
	for _, p := range r.Pools {
		fmt.Fprintln(a.stdout, "pool "+modeLine(p))
	}
	fmt.Fprintln(a.stdout, modeLine(r.Quotas))
	for _, h := range r.Hosts {
		fmt.Fprintln(a.stdout, "host "+modeLine(h))
	}
	return nil
}

func modeLine(m api.ModeOf) string {
	line := plain(m.Name) + ": " + string(m.Enforcement)
	if m.Configured != "" && m.Configured != m.Enforcement {
		line += ", configured " + string(m.Configured)
	}
	if m.Untold {
		line += ", not told yet"
	}
	for _, reason := range slices.Sorted(maps.Keys(m.WouldRefuse)) {
		line += fmt.Sprintf("; %s × would be %s", grouped(m.WouldRefuse[reason]), plain(reason))
	}
	return line
}
