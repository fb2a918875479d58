package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) hostsCommand() *cobra.Command {
	agents := false
	cmd := &cobra.Command{
		Use:   "hosts",
		Short: "List the hosts with what each can still promise",
		Long: `Lists the hosts with what each can still promise and how long ago each was heard, says of each
that is not connected why not, and of each that does not answer how old its figures are. --agents
shows where their agents are, and of which version they are. A buried host is shown for a day. Needs the role operator.`,
		Example: `  plimsoll hosts
  plimsoll hosts --agents
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
			if agents {
				return agentTable(list.Hosts).write(a.stdout, "")
			}
			return a.writeHosts(list)
		},
	}
	cmd.Flags().BoolVar(&agents, "agents", false, "show their agents instead")
	return cmd
}

func (a *app) writeHosts(list *api.HostList) error {
	if err := hostTable(list.Hosts).write(a.stdout, ""); err != nil {
		return err
	}
	if list.MostlySilent {
		const what = "more than half of the hosts are silent: none is taken for dead, and what they hold keeps its slots"
		if _, err := fmt.Fprintln(a.stdout, what); err != nil {
			return err
		}
	}
	for _, h := range list.Hosts {
		for _, what := range oddities(h) {
			if _, err := fmt.Fprintf(a.stdout, "%s %s\n", plain(h.ID), what); err != nil {
				return err
			}
		}
	}
	return nil
}

// oddities says what stands against a host, and how old the figures are that are shown of one
// that does not answer: a host whose agent stands still looks as well as ever by its last word.
func oddities(h api.Host) (all []string) {
	if h.Quarantine != "" {
		all = append(all, "is quarantined: "+quarantineOf(h.Quarantine))
	}
	switch {
	case h.NotConnected != "":
		all = append(all, "is not connected: "+plain(h.NotConnected))
	case h.LastWord && h.HeardMSAgo != nil:
		all = append(all, "did not answer just now: its figures are "+seconds(ageOf(h.HeardMSAgo))+" old; look at its agent")
	case h.HeardMSAgo != nil && ageOf(h.HeardMSAgo) > overdue:
		all = append(all, "was last heard "+seconds(ageOf(h.HeardMSAgo))+" ago, and speaks every 10 s; look at its agent")
	}
	if silence := time.Duration(h.SilentMS) * time.Millisecond; silence >= forLong && h.State != api.HostStateBuried {
		all = append(all, "was heard by nobody for "+age(silence)+"; if it is gone for good: plimsoll host bury "+plain(h.ID)+" --reason TEXT")
	}
	if h.OutOfGateCount > 0 {
		all = append(all, fmt.Sprintf("runs %s without a ticket, which hold %s MiB: plimsoll host show %s lists them",
			plural(h.OutOfGateCount, "sandbox", "sandboxes"), grouped(h.OutOfGateMB), plain(h.ID)))
	}
	if h.UnansweredReserves > 0 {
		all = append(all, "left "+plural(h.UnansweredReserves, "reserve", "reserves")+" in a row unanswered; after 2 it is quarantined, and then asked one at a time until it answers")
	}
	return all
}

func agentTable(hosts []api.Host) *table {
	t := newTable("HOST", "STATE", "ENDPOINT", "VERSION", "HEARD", "CONNECTED")
	for _, h := range hosts {
		connected := "yes"
		if !h.Connected {
			connected = "no: " + first(h.NotConnected, "not known why")
		}
		t.row(h.ID, dash(string(h.State)), dash(h.Endpoint), dash(h.Version), heard(h.HeardMSAgo), connected)
	}
	return t
}

func hostTable(hosts []api.Host) *table {
	t := newTable("HOST", "STATE", "MODE", "INTAKE", ">ADMITTABLE", ">RESERVED", ">RESIDENT", ">COMMITTED", ">RUN", ">HEARD")
	for _, h := range hosts {
		t.row(h.ID, dash(string(h.State)), modeOf(h), intakeOf(h), grouped(h.AdmittableMB), grouped(h.ReservedMB),
			grouped(h.ResidentMB), grouped(h.CommittedMB), grouped(h.SandboxCount), wordAge(h.HeardMSAgo))
	}
	return t
}

// quarantineOf says why a replica leaves a host alone, and what to look at.
func quarantineOf(why api.Quarantine) string {
	if why == api.QuarantineBootsFailed {
		return "its last boots all failed; look at what boots them there. A boot that comes up ends it"
	}
	return "it did not answer when it was asked to reserve; look at its agent. An answer ends it"
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

const (
	overdue = 12 * time.Second // a host speaks every 10 s, whatever it has to say
	silent  = 30 * time.Second // and takes nothing new when it has not for so long
	forLong = 10 * time.Minute // twice the time after which it is dead: perhaps it is no more
)

func ageOf(ms *int64) time.Duration { return time.Duration(*ms) * time.Millisecond }

// wordAge is that of a host's newest word, for a table.
func wordAge(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return seconds(ageOf(ms))
}

func heard(ago *int64) string {
	if ago == nil {
		return "not heard yet"
	}
	d := ageOf(ago)
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
	cmd := &cobra.Command{
		Use: "host", Short: "Look at one host, cordon, drain or bury it, let one join",
		Example: `  plimsoll host show host-1
  plimsoll host drain host-1 --reason "kernel update" --wait
  plimsoll host token create --host host-1`,
	}
	return group(cmd, show, a.hostCordon(), a.hostUncordon(), a.hostDrain(), a.hostBury(), a.hostToken())
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
