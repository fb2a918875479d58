package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) hostsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hosts",
		Short: "List the hosts with what each can still promise",
		Example: `  plimsoll hosts
  plimsoll hosts -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			list, err := c.Hosts(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, list)
			case len(list.Hosts) == 0:
				_, err = fmt.Fprintln(a.stdout, "no hosts: start an agent, or plimsoll up")
				return err
			}
			return hostTable(list.Hosts).write(a.stdout, "")
		},
	}
}

func hostTable(hosts []api.Host) *table {
	t := newTable("HOST", "MODE", "INTAKE", ">ADMITTABLE", ">RESERVED", ">RESIDENT", ">COMMITTED", ">RUN")
	for _, h := range hosts {
		t.row(h.ID, modeOf(h), intakeOf(h), grouped(h.AdmittableMB), grouped(h.ReservedMB),
			grouped(h.ResidentMB), grouped(h.CommittedMB), grouped(h.SandboxCount))
	}
	return t
}

// intakeOf names the intake, and that nothing is placed on a host that is not heard.
func intakeOf(h api.Host) string {
	word := heard(h.HeardMSAgo)
	if h.HeardMSAgo != nil && *h.HeardMSAgo <= silent.Milliseconds() {
		return string(h.Intake)
	}
	if h.Intake == api.IntakeOpen {
		return word
	}
	return string(h.Intake) + ", " + word
}

// modeOf names the mode, and the enforcement where it does not bind.
func modeOf(h api.Host) string {
	if h.Enforcement == api.EnforcementEnforce {
		return string(h.Mode)
	}
	return string(h.Mode) + "/" + string(h.Enforcement)
}

// silent is the age from which a host takes nothing new.
const silent = 30 * time.Second

func heard(ago *int64) string {
	if ago == nil {
		return "not heard yet"
	}
	d := time.Duration(*ago) * time.Millisecond
	if d > silent {
		return "silent " + seconds(d)
	}
	return "heard " + seconds(d) + " ago"
}

func (a *app) hostCommand() *cobra.Command {
	show := &cobra.Command{
		Use:   "show [HOST]",
		Short: "Show one host's arithmetic as a picture",
		Long: `Shows what a host can still promise and how that comes about, as its own agent last said:

  admittable = free - headroom - promised - reserved, and 0 while the intake is not open

free is the least room under any of its limits. promised is charged to sandboxes that run and
not yet touched by them; what they have touched is used.

Without a HOST it asks the agent of this machine at its socket, and no replica.`,
		Example: `  plimsoll host show host-1
  plimsoll host show host-1 -o json
  plimsoll host show`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := a.lookAtHost(cmd.Context(), args)
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, h)
			}
			return drawHost(a.stdout, *h, penFor(a.stdout))
		},
		ValidArgsFunction: a.completeHosts,
	}
	return group(&cobra.Command{Use: "host", Short: "Look at one host", Example: "  plimsoll host show host-1"}, show)
}

func (a *app) lookAtHost(ctx context.Context, args []string) (*api.Host, error) {
	if len(args) == 0 {
		seam, err := a.seam()
		if err != nil {
			return nil, err
		}
		h, err := seam.Show(ctx)
		return &h, atSeam(seam, err)
	}
	c, _, err := a.connect()
	if err != nil {
		return nil, err
	}
	return c.Host(ctx, args[0])
}

// completeHosts offers the hosts' names, where a server is found.
func (a *app) completeHosts(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, _, err := a.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := c.Hosts(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, len(list.Hosts))
	for i, h := range list.Hosts {
		names[i] = h.ID
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
