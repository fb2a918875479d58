package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) modeCompare() *cobra.Command {
	return &cobra.Command{
		Use:   "compare",
		Short: "Compare the hosts in mode committed with those in working-set",
		Long: `Lays the hosts that are in one mode beside those that are in the other: what a host holds and
promises, what it admitted, refused and lost, over how long, and what the other mode would say.
Set host.mode of one host's agent, restart that agent, and look again after a day.

Each agent counts since it started, in which time it is in one mode. Amounts are those of one
host, in MiB, now and on average; counts are sums over the hosts of a mode.

  PROMISED      charged to what runs, and reserved
  COULD TAKE    what a host can still promise, and what it could in the other mode
  NO            why hosts said no when they were asked. A replica does not ask a host of which it
                knows that it is full
  OTHER MODE    what would have been different: asks of a host, and creates that the replica which
                answers refused since it started, for want of a host

Needs the role operator.`,
		Example: `  plimsoll mode compare
  plimsoll mode compare -o json > monday.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			all, err := c.CompareModes(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, all)
			}
			return drawSides(a.stdout, all.Sides)
		},
	}
}

func drawSides(w io.Writer, sides []api.ModeSide) error {
	if len(sides) == 0 {
		_, err := fmt.Fprintln(w, "no hosts: start an agent, or plimsoll up")
		return err
	}
	heads := []string{"A HOST, MiB"}
	for i := range sides {
		heads = append(heads, ">"+strings.ToUpper(string(sides[i].Mode)))
	}
	t := newTable(heads...)
	line := func(name string, cell func(*api.ModeSide) string) {
		cells := []string{name}
		for i := range sides {
			if sides[i].Hosts == 0 {
				cells = append(cells, "-")
				continue
			}
			cells = append(cells, cell(&sides[i]))
		}
		t.row(cells...)
	}
	loadLines(line)
	countLines(line, sides)
	if err := t.write(w, ""); err != nil {
		return err
	}
	for i := range sides {
		for _, text := range remarks(&sides[i]) {
			fmt.Fprintln(w, plain(text))
		}
	}
	if len(sides) == 1 {
		fmt.Fprintf(w, "all hosts are in mode %s: write host.mode: %s into one agent's file and restart it, then look again\n", sides[0].Mode, sides[0].Other)
	}
	return nil
}

// loadLines are what is on a host, now and on average.
func loadLines(line func(string, func(*api.ModeSide) string)) {
	line("hosts", func(s *api.ModeSide) string { return grouped(s.Hosts) })
	line("for", func(s *api.ModeSide) string { return fromTo(s.LeastMS, s.MostMS) })
	line("memory", func(s *api.ModeSide) string { return grouped(s.MemoryMB) })
	both := func(name string, cell func(*api.HostLoad) string) {
		line(name, func(s *api.ModeSide) string { return cell(&s.Now) })
		line("  on average", func(s *api.ModeSide) string {
			if s.Mean == nil {
				return "-"
			}
			return cell(s.Mean)
		})
	}
	both("sandboxes", func(l *api.HostLoad) string { return fmt.Sprintf("%.1f", l.Sandboxes) })
	both("promised", func(l *api.HostLoad) string { return grouped(l.PromisedMB) })
	both("resident", func(l *api.HostLoad) string { return grouped(l.ResidentMB) })
	both("resident / committed", func(l *api.HostLoad) string { return partOf(l.ResidentRatio) })
	both("could take", func(l *api.HostLoad) string { return grouped(l.AdmittableMB) })
	both("could take in the other mode", func(l *api.HostLoad) string { return grouped(l.WouldOfferMB) })
}

// countLines are sums over the hosts of a mode.
func countLines(line func(string, func(*api.ModeSide) string), sides []api.ModeSide) {
	count := func(name string, of func(*api.ModeSide) int64) {
		line(name, func(s *api.ModeSide) string { return grouped(of(s)) })
	}
	count("admitted", func(s *api.ModeSide) int64 { return s.Admitted })
	for _, reason := range reasonsOf(sides, func(s *api.ModeSide) map[string]int64 { return s.Refused }) {
		count("no: "+reason, func(s *api.ModeSide) int64 { return s.Refused[reason] })
	}
	for _, reason := range reasonsOf(sides, func(s *api.ModeSide) map[string]int64 { return s.WouldBeRefused }) {
		count("only told: "+reason, func(s *api.ModeSide) int64 { return s.WouldBeRefused[reason] })
	}
	count("other mode: would have admitted", func(s *api.ModeSide) int64 { return s.WouldAdmit })
	count("other mode: would have refused", func(s *api.ModeSide) int64 { return s.WouldRefuse })
	count("other mode: creates placed after all", func(s *api.ModeSide) int64 { return s.WouldPlace })
	line("valve shut for", func(s *api.ModeSide) string { return span(s.ShutMS) })
	count("evicted", func(s *api.ModeSide) int64 { return s.Evicted })
	count("would have been evicted", func(s *api.ModeSide) int64 { return s.WouldEvict })
	count("out-of-memory kills", func(s *api.ModeSide) int64 { return s.Killed })
}

// reasonsOf are those that any side has.
func reasonsOf(sides []api.ModeSide, of func(*api.ModeSide) map[string]int64) []string {
	all := map[string]bool{}
	for i := range sides {
		for reason := range of(&sides[i]) {
			all[reason] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func fromTo(least, most int64) string {
	from, to := lasted(least), lasted(most)
	if from == to {
		return from
	}
	return from + " to " + to
}

func lasted(ms int64) string { return age(time.Duration(ms) * time.Millisecond) }

// remarks say what stands against reading too much into a side.
func remarks(s *api.ModeSide) (all []string) {
	if s.NotHeard > 0 {
		all = append(all, fmt.Sprintf("%s: %s did not answer, or runs an agent that counts nothing, and is left out", s.Mode, plural(s.NotHeard, "host", "hosts")))
	}
	if s.NotEnforcing > 0 {
		all = append(all, fmt.Sprintf("%s: %s refused nothing (shadow or observe), so what is there does not come of the mode", s.Mode, plural(s.NotEnforcing, "host", "hosts")))
	}
	if ten := int64(10 * time.Minute / time.Millisecond); s.Hosts > 0 && s.LeastMS < ten {
		all = append(all, fmt.Sprintf("%s: an agent started %s ago, so its averages are of little", s.Mode, lasted(s.LeastMS)))
	}
	return all
}
