package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/discover"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/observe"
)

func (a *app) observeCommand() *cobra.Command {
	var seen config.Observe
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Show what runs on this machine, and what each mode would hold of it",
		Long: `Shows what plimsoll agent --observe has seen on this machine: what runs, what of its
configured size it holds, and what each mode would charge and could still promise:

  working-set  charges what is held, and at least the reserve (a quarter, or 512 MiB)
  committed    charges what was configured
  learned      as working-set, by the reserves that runs have shown, once 30 of a size ended

With --match or --cgroup-parent it looks by itself, once, and needs no agent. It touches
nothing. A configured size is, in this order: the cgroup's memory.max; the size on the command
line (qemu's -m, or the group of --size-pattern); mem_size_mib in firecracker's --config-file;
--default-size. What has none counts for what it holds, and that is said.`,
		Example: `  plimsoll observe
  plimsoll observe -o json
  plimsoll observe --match 'firecracker|qemu-system' --default-size 2GiB`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.observed(cmd, seen)
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, r)
			}
			return drawObserved(a.stdout, r, time.Now())
		},
	}
	observe.AddFlags(cmd, &seen)
	return cmd
}

func (a *app) observed(cmd *cobra.Command, seen config.Observe) (observe.Report, error) {
	if seen != (config.Observe{}) {
		h := config.Default("").Local.Host
		h.Observe = seen
		rules, err := observe.RulesOf(h)
		if err != nil {
			return observe.Report{}, mistake(cmd, "%s", err)
		}
		m, err := hostmem.Discover("/")
		if err != nil {
			return observe.Report{}, err
		}
		name, _ := os.Hostname()
		return observe.New(name, m, rules).Look(time.Now())
	}
	dir, err := filepath.Abs(first(a.dataDir, os.Getenv("PLIMSOLL_DATA_DIR"), discover.DefaultDataDir()))
	if err != nil {
		return observe.Report{}, err
	}
	r, err := observe.Read(dir)
	if errors.Is(err, observe.ErrNone) {
		return r, &Failure{ExitUnavailable, err, "plimsoll agent --observe --match 'firecracker|qemu-system', or look once with plimsoll observe --match PATTERN"}
	}
	return r, err
}

// mostShown bounds the table; -o json has them all.
const mostShown = 20

func drawObserved(w io.Writer, r observe.Report, now time.Time) error {
	var b strings.Builder
	age := now.Sub(r.At)
	fmt.Fprintf(&b, "host %s   observed, nothing is enforced   seen %s ago", plain(r.Host), seconds(max(age, 0)))
	if age > silent {
		b.WriteString(": the agent that observed is gone")
	}
	fmt.Fprintf(&b, "\n\n  resident %s MiB of %s committed", grouped(r.ResidentMB), grouped(r.CommittedMB))
	if r.CommittedMB > 0 {
		fmt.Fprintf(&b, " (%.0f %%)", r.Ratio*100)
	}
	fmt.Fprintf(&b, " in %s\n", plural(r.Found, "sandbox", "sandboxes"))
	if r.Looks > 1 {
		fmt.Fprintf(&b, "  at most %s MiB resident in %s, at %s\n", grouped(r.Peak.ResidentMB), plural(r.Peak.Sandboxes, "sandbox", "sandboxes"), clock(r.Peak.At))
	}
	fmt.Fprintf(&b, "  free %s MiB under the limit %s, less %s of headroom\n\n", grouped(r.FreeMB), plain(r.BindingLimit), grouped(r.HeadroomMB))
	if err := modeTable(r).write(&b, "  "); err != nil {
		return err
	}
	if len(r.Learned) > 0 {
		b.WriteString("\n")
		if err := learnedTable(r.Learned).write(&b, "  "); err != nil {
			return err
		}
	}
	if len(r.Sandboxes) > 0 {
		b.WriteString("\n")
		if err := observedTable(r.Sandboxes).write(&b, "  "); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\n  %s\n", plain(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func modeTable(r observe.Report) *table {
	t := newTable("MODE", ">WOULD HOLD", ">COULD PROMISE", ">FITS MORE", "")
	for _, m := range r.Modes {
		more, note := "-", ""
		if m.TypicalMB > 0 {
			more, note = grouped(m.FitsMore), "stateless ones of "+grouped(m.TypicalMB)+" MiB"
		}
		if m.OverMB > 0 {
			note = grouped(m.OverMB) + " MiB past its line: it would take nothing new"
		}
		t.row(m.Mode, grouped(m.HeldMB), grouped(m.AdmittableMB), more, note)
	}
	return t
}

func learnedTable(list []observe.Learned) *table {
	t := newTable(">CONFIGURED", "RUNS", ">RESERVE", ">RESIDENT ON AVERAGE")
	for _, l := range list {
		runs, reserve := fmt.Sprintf("prior; %d of %d runs", l.Ended, l.Enough), "-"
		if l.ReserveMB > 0 {
			runs, reserve = "learned; "+grouped(l.Ended)+" runs", grouped(l.ReserveMB)
		}
		t.row(grouped(l.ConfiguredMB), runs, reserve, grouped(l.MeanMB))
	}
	return t
}

func observedTable(list []observe.Sandbox) *table {
	t := newTable("SANDBOX", "PROGRAM", ">RESIDENT", ">PEAK", ">CONFIGURED", "SAID BY", "")
	for i, s := range list {
		if i == mostShown {
			t.note(plural(int64(len(list)-i), "more", "more") + ": -o json")
			break
		}
		size, from, stateful := "-", "nothing", ""
		if s.SizeFrom != "" {
			size, from = grouped(s.ConfiguredMB), s.SizeFrom
		}
		if s.Stateful {
			stateful = "stateful"
		}
		t.row(short(s.ID, 24), short(dash(s.Command), 20), grouped(s.ResidentMB), grouped(s.PeakMB), size, from, stateful)
	}
	return t
}
