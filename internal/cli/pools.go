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

func (a *app) poolsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pools",
		Short: "List the pools: caps, and who holds the slots",
		Example: `  plimsoll pools
  plimsoll pools -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			list, err := c.Pools(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, list)
			}
			return drawPools(a.stdout, *list, time.Now())
		},
	}
}

func drawPools(w io.Writer, list api.PoolList, now time.Time) error {
	if len(list.Pools) == 0 {
		_, err := fmt.Fprintln(w, "no pools: plimsoll config apply brings some")
		return err
	}
	t := newTable("POOL", ">BUSY", ">CAP", ">WAITING", ">OF", "SLOTS OF CLASSES", "SLOTS OF CONSUMERS")
	var caps int64
	for _, p := range list.Pools {
		slots := "none"
		if p.Capped {
			slots = grouped(p.Cap)
			caps += p.Cap
		}
		t.row(p.Name, grouped(p.Busy), slots, grouped(p.Waiting), grouped(p.MaxWaiting), holders(p.Classes), holders(p.Consumers))
		for _, note := range poolNotes(p, now) {
			t.note(note)
		}
	}
	if err := t.write(w, ""); err != nil || list.Ceiling == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "caps %s of the ceiling %s\n", grouped(caps), grouped(*list.Ceiling))
	return err
}

// poolNotes are what a row has no column for.
func poolNotes(p api.Pool, now time.Time) (notes []string) {
	if o := p.Override; o != nil {
		notes = append(notes, overrideNote(p, *o, now))
	}
	if p.Running != nil && *p.Running == 0 && p.Capped && p.Busy > 0 && p.Busy >= p.Cap {
		notes = append(notes, "full, and none of it runs: "+plural(p.Busy, "slot is", "slots are")+" held by what was not booted; plimsoll admissions says since when")
	}
	for _, s := range p.Shares {
		notes = append(notes, shareNote(s))
	}
	if p.Placement == api.PlacementNone {
		notes = append(notes, fmt.Sprintf("no hosts: %s demands the tickets, good for %s; a slot ends when nothing is heard of it for %s",
			p.Audience, span(p.TicketTTLMS), span(p.SlotTTLMS)))
	}
	if p.OutOfGate != nil && *p.OutOfGate > 0 {
		notes = append(notes, plural(*p.OutOfGate, "sandbox runs", "sandboxes run")+" without a slot, by the last word of who lists them")
	}
	return notes
}

func overrideNote(p api.Pool, o api.PoolOverride, now time.Time) string {
	what, until, configured := "held", "until it is resumed", "no cap"
	if o.Cap > 0 {
		what = "cap " + grouped(o.Cap)
	}
	if o.Until != nil {
		until = "until " + clock(*o.Until) + ", " + age(o.Until.Sub(now)+time.Second) + " more"
	}
	if p.ConfiguredCap != nil {
		configured = grouped(*p.ConfiguredCap)
	}
	return fmt.Sprintf("%s %s (configured: %s), by %s: %s", what, until, configured, o.By, o.Reason)
}

func shareNote(s api.ShareStanding) string {
	whose := "consumer " + s.Consumer
	if s.Priority != nil {
		whose = fmt.Sprintf("priority %d", *s.Priority)
	}
	text := fmt.Sprintf("share of %s: holds %s", whose, grouped(s.Held))
	if s.Max != nil {
		text += " of at most " + grouped(*s.Max)
	}
	if s.Reserved > 0 {
		text += ", " + grouped(s.Reserved) + " reserved"
	}
	return text
}

// holders names who holds or waits: the most slots first.
func holders(of map[string]api.Occupancy) string {
	names := slices.SortedFunc(maps.Keys(of), func(x, y string) int {
		if of[x].Busy != of[y].Busy {
			return int(of[y].Busy - of[x].Busy)
		}
		return strings.Compare(x, y)
	})
	var parts []string
	for _, name := range names {
		o := of[name]
		switch {
		case o.Waiting > 0:
			parts = append(parts, fmt.Sprintf("%s %d+%d waiting", name, o.Busy, o.Waiting))
		case o.Busy > 0:
			parts = append(parts, fmt.Sprintf("%s %d", name, o.Busy))
		}
	}
	return dash(strings.Join(parts, ", "))
}
