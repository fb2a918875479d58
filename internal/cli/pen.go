package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// pen draws with what the other end can show.
type pen struct {
	colour bool
	glyphs map[part]string // part of a host's memory -> its fill
	rule   string
}

// part is one part of a host's memory.
type part int

const (
	used part = iota
	promised
	reserved
	headroom
	left
	parts
)

func unicodePen() pen {
	return pen{rule: "─", glyphs: map[part]string{used: "█", promised: "▓", reserved: "▒", headroom: "░", left: "·"}}
}

func asciiPen() pen {
	return pen{rule: "-", glyphs: map[part]string{used: "#", promised: "=", reserved: "+", headroom: ":", left: "."}}
}

// penFor uses blocks where the locale has them, and colours only on a terminal whose user
// has not asked for none (NO_COLOR).
func penFor(w io.Writer) pen {
	p := asciiPen()
	locale := strings.ToUpper(first(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	if strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8") {
		p = unicodePen()
	}
	f, ok := w.(*os.File)
	p.colour = ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return p
}

// fill draws n cells of one part.
func (p pen) fill(of part, n int) string {
	text := strings.Repeat(p.glyphs[of], n)
	if !p.colour || n == 0 {
		return text
	}
	code := map[part]string{used: "34", promised: "36", reserved: "33", headroom: "90", left: "32"}[of]
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// bar draws amounts side by side, at width cells for total, which is not below their sum.
// What is there gets a cell at least.
func (p pen) bar(amounts [parts]int64, total int64, width int) string {
	var cells [parts]int
	over := -width
	for i, n := range amounts {
		if n > 0 && total > 0 {
			cells[i] = max(int(float64(n)/float64(total)*float64(width)+0.5), 1)
		}
		over += cells[i]
	}
	cells[widest(cells, over < 0)] -= over
	var b strings.Builder
	for i, n := range cells {
		b.WriteString(p.fill(part(i), n))
	}
	return b.String()
}

// widest is the part that rounding is least seen in. Cells to spare go to what is left, if
// there is any.
func widest(cells [parts]int, spare bool) part {
	most := left
	if spare && cells[left] > 0 {
		return left
	}
	for i, n := range cells {
		if n > cells[most] {
			most = part(i)
		}
	}
	return most
}
