package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// barWidth leaves room for the indent and the brackets at 80 columns.
const barWidth = 74

// drawHost shows one host: a bar of the limit that binds, the sum that it stands for, all
// limits, and the sandboxes. Every figure is the agent's own.
func drawHost(w io.Writer, h api.Host, p pen) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", title(h))
	if len(h.Limits) > 0 {
		s := sumOf(h)
		fmt.Fprintf(&b, "  [%s]\n\n", p.bar(s.amounts(), max(s.size, s.total()), barWidth))
		s.write(&b, h, p)
		b.WriteString("\n")
		if err := limitTable(h).write(&b, "  "); err != nil {
			return err
		}
		b.WriteString("\n")
	}
	b.WriteString(load(h))
	b.WriteString(lostBet(h))
	if len(h.Sandboxes) > 0 {
		b.WriteString("\n")
		if err := sandboxTable(h.Sandboxes).write(&b, "  "); err != nil {
			return err
		}
	}
	if len(h.Evictions) > 0 {
		b.WriteString("\n")
		if err := evictionTable(h.Evictions).write(&b, "  "); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lostBet says what is done when the bet is lost, and that it is.
func lostBet(h api.Host) string {
	text := ""
	if h.Reclaim != "" {
		text = "  reclaim " + plain(h.Reclaim)
	}
	if h.Lost {
		text += ", and the bet is lost now"
	}
	if h.Ramp != nil {
		text += fmt.Sprintf("\n  the kernel has killed for want of memory: %s MiB may be promised now, more in %d s", grouped(h.Ramp.LeftMB), (h.Ramp.NextMS+999)/1000)
	}
	if text == "" {
		return ""
	}
	return text + "\n"
}

// evictionTable lists the deeds of lost bets, the newest last.
func evictionTable(list []api.Eviction) *table {
	t := newTable("HAD TO GO", "AT", "BY", ">AFTER", ">PRIORITY", ">IDLE", ">RESIDENT", ">OVER", ">LACKING", ">OF")
	for _, e := range list {
		after := "-"
		if e.GoneMS > 0 {
			after = fmt.Sprintf("%d ms", e.GoneMS)
		}
		t.row(short(dash(first(e.Key, e.ID)), 20), e.At.Format(time.TimeOnly), short(plain(e.By), 15), after, fmt.Sprint(e.Priority),
			fmt.Sprintf("%d s", e.IdleMS/1000), grouped(e.ResidentMB), grouped(e.OvershootMB), grouped(e.DeficitMB), grouped(e.HeadroomMB))
	}
	return t
}

func title(h api.Host) string {
	text := fmt.Sprintf("host %s   %s, %s   intake %s   %s", plain(h.ID), h.Mode, h.Enforcement, h.Intake, heard(h.HeardMSAgo))
	if h.IntakeReason != "" {
		text += "\n  " + plain(h.IntakeReason)
	}
	for _, name := range slices.Sorted(maps.Keys(h.Labels)) {
		text += fmt.Sprintf("\n  label %s=%s", plain(name), plain(h.Labels[name]))
	}
	return text
}

// load says how full the sandboxes are, and how busy the host is.
func load(h api.Host) string {
	share := ""
	if h.CommittedMB > 0 {
		share = fmt.Sprintf(" (%d %%)", h.ResidentMB*100/h.CommittedMB)
	}
	cpu := ""
	if h.CPUTotal > 0 {
		cpu = fmt.Sprintf(", cpu %.1f of %.4g", h.CPUUsed, h.CPUTotal)
	}
	return fmt.Sprintf("  resident %s MiB of %s committed%s in %s\n  starts %d of %d, in line %d of %d, memory pressure %.1f %%%s\n",
		grouped(h.ResidentMB), grouped(h.CommittedMB), share, plural(h.SandboxCount, "sandbox", "sandboxes"),
		h.Starts.Running, h.Starts.Max, h.Starts.Waiting, h.Starts.MaxWaiting, h.PSISomeAvg10, cpu)
}

func limitTable(h api.Host) *table {
	t := newTable("LIMIT", ">SIZE", ">USED", ">FREE", "")
	for _, l := range h.Limits {
		binds := ""
		if l.Name == binding(h).Name {
			binds = "binds"
		}
		t.row(short(l.Name, 40), grouped(l.SizeMB), grouped(l.UsedMB), grouped(l.SizeMB-l.UsedMB), binds)
	}
	return t
}

// binding is the limit with the least room.
func binding(h api.Host) api.Limit {
	var least api.Limit
	for i, l := range h.Limits {
		if l.Name == h.BindingLimit {
			return l
		}
		if i == 0 || l.SizeMB-l.UsedMB < least.SizeMB-least.UsedMB {
			least = l
		}
	}
	return least
}

func sandboxTable(list []api.Sandbox) *table {
	t := newTable("KEY", "CLASS", "STATE", ">RESIDENT", ">CHARGE", ">CONFIGURED", "")
	for _, s := range list {
		stateful := ""
		if s.Stateful {
			stateful = "stateful"
		}
		t.row(short(dash(first(s.Key, s.ID)), 20), short(dash(s.Class), 12), string(s.State),
			grouped(s.ResidentMB), grouped(s.ChargeMB), grouped(s.ConfiguredMB), stateful)
	}
	return t
}
