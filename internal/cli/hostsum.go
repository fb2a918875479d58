package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/plimsoll-project/plimsoll/api"
)

// sum is a host's arithmetic the way it is shown: line by line, so that it adds up.
type sum struct {
	limit                              string
	size, used                         int64
	free, headroom, promised, reserved int64
	left                               int64 // what the lines above it come to
	admittable                         int64 // what the agent said
}

func sumOf(h api.Host) sum {
	l := binding(h)
	s := sum{
		limit: l.Name, size: l.SizeMB, used: l.UsedMB, free: h.FreeMB,
		headroom: h.HeadroomMB, promised: h.UnresidentMB, reserved: h.ReservedMB, admittable: h.AdmittableMB,
	}
	s.left = s.free - s.headroom - s.promised - s.reserved
	return s
}

func (s sum) amounts() [parts]int64 {
	return [parts]int64{used: s.used, promised: s.promised, reserved: s.reserved, headroom: s.headroom, left: max(s.left, 0)}
}

// total is more than the size where more was promised than there is.
func (s sum) total() (total int64) {
	for _, n := range s.amounts() {
		total += n
	}
	return total
}

// step is one line of the sum.
type step struct {
	glyph, name string
	amount      int64
	minus       bool
	ruled       bool // a line above it: a result
	note        string
}

func (s sum) steps(h api.Host, p pen) []step {
	g := p.glyphs
	lines := []step{
		{name: s.limit + ", the limit that binds", amount: s.size, note: "MiB"},
		{glyph: g[used], name: "used", amount: s.used, minus: true},
	}
	if odd := s.size - s.used - s.free; odd != 0 {
		lines = append(lines, rounding(odd))
	}
	lines = append(
		lines,
		step{name: "free", amount: s.free, ruled: true},
		step{glyph: g[promised], name: "promised to the running, untouched", amount: s.promised, minus: true},
		step{glyph: g[reserved], name: "reserved for boots to come", amount: s.reserved, minus: true, note: open(h)},
		step{glyph: g[headroom], name: "headroom, never promised", amount: s.headroom, minus: true},
	)
	odd := s.left - s.admittable
	switch {
	case h.Intake != api.IntakeOpen:
		return append(lines, step{name: "left", amount: s.left, ruled: true}, step{glyph: g[left], name: "admittable", amount: s.admittable, note: "intake is " + shutBy(h.Intake)})
	case s.left < 0:
		return append(lines, step{name: "left", amount: s.left, ruled: true}, step{glyph: g[left], name: "admittable", amount: s.admittable, note: "over the load line"})
	case odd != 0:
		lines = append(lines, rounding(odd))
	}
	return append(lines, step{glyph: g[left], name: "admittable", amount: s.admittable, ruled: true, note: "MiB"})
}

// rounding is what whole MiB lose of bytes, or what moved between two measurements.
func rounding(odd int64) step {
	return step{name: "rounding", amount: max(odd, -odd), minus: odd > 0}
}

func open(h api.Host) string {
	if h.Reservations == 0 {
		return ""
	}
	return plural(h.Reservations, "reservation", "reservations")
}

func (s sum) write(w io.Writer, h api.Host, p pen) {
	const names, figures = 38, 12
	for _, line := range s.steps(h, p) {
		if line.ruled {
			fmt.Fprintf(w, "    %s%s\n", strings.Repeat(" ", names), strings.Repeat(p.rule, figures))
		}
		figure := grouped(line.amount)
		if line.minus {
			figure = "- " + figure
		}
		text := fmt.Sprintf("  %s %s%s  %s", pad(line.glyph, 1, false), pad(short(line.name, names), names, false), pad(figure, figures, true), plain(line.note))
		fmt.Fprintln(w, strings.TrimRight(text, " "))
	}
}

// shutBy says that nothing is taken, in one word.
func shutBy(i api.Intake) string {
	if i == api.IntakePressure {
		return "shut"
	}
	return string(i)
}
