package demo

import (
	"cmp"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// style is what the other end can show.
type style struct {
	colour     bool
	yes, no    string
	dots, rule string
	fills      [parts]string
}

// part is one part of a host's memory.
type part int

const (
	used part = iota
	covered
	reserved
	left
	headroom
	parts
)

// styleFor draws with blocks unless the locale says that it has none, and with colours only on
// a terminal whose user has not asked for none (NO_COLOR).
func styleFor(w io.Writer) style {
	s := style{yes: "✓", no: "✗", dots: "…", rule: "─", fills: [parts]string{"█", "▓", "▒", "·", "░"}}
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"), "UTF-8"))
	if !strings.Contains(locale, "UTF-8") && !strings.Contains(locale, "UTF8") {
		s = style{yes: "+", no: "!", dots: ".", rule: "-", fills: [parts]string{"#", "=", "+", ".", ":"}}
	}
	f, ok := w.(*os.File)
	s.colour = ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

func (s style) good() string { return s.paint("32", s.yes) }
func (s style) bad() string  { return s.paint("31", s.no) }

func (s style) paint(code, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// bar draws amounts side by side, in cells that sum up to n. What is there gets a cell.
func (s style) bar(amounts [parts]int64, n int) string {
	var total, before int64
	for _, a := range amounts {
		total += max(a, 0)
	}
	var b strings.Builder
	drawn := 0
	for p, a := range amounts {
		before += max(a, 0)
		edge := int((before*int64(n) + total/2) / max(total, 1))
		if a > 0 {
			edge = max(edge, drawn+1)
		}
		edge = max(min(edge, n), drawn)
		b.WriteString(s.paint([parts]string{"34", "36", "33", "32", "90"}[p], strings.Repeat(s.fills[p], edge-drawn)))
		drawn = edge
	}
	return b.String()
}
