package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// Bars are amounts side by side, each with its name and its value.
type Bars struct {
	Title, Unit, Note string
	Bars              []Bar
	Mark              *Mark
}

// Bar is one of them. Its value is at least 0.
type Bar struct {
	Label string
	Value float64
	Text  string // what is written beside it; empty: the value and the unit
	Color Color
}

// Mark is a limit across all bars.
type Mark struct {
	At    float64
	Label string
}

const (
	barHigh  = 26
	barApart = 12
	above    = 20 // for a label above its bar
)

// Draw draws them, with their names above where there is little room.
func (b Bars) Draw(width int) *svg.Canvas {
	c := &svg.Canvas{Width: width}
	left, high := 2.0, float64(above+barHigh+barApart)
	if width >= wide {
		left, high = b.widest(func(bar Bar) string { return bar.Label })+16, barHigh+barApart
	}
	right := float64(width)
	x := svg.Scale{To: b.most(), At: left, End: max(right-b.widest(b.text)*boldly-16, left+(right-left)/2)}
	bottom := high*float64(len(b.Bars)) - barApart
	for i, bar := range b.Bars {
		y := high*float64(i+1) - barHigh - barApart
		if bar.Value > 0 {
			c.Rect("bar "+string(bar.color()), x.At, y, max(x.Px(bar.Value)-x.At, 1), barHigh)
		}
		c.Line("axis", x.At, y-2, x.At, y+barHigh+2)
	}
	if b.Mark != nil {
		b.mark(c, x, bottom)
	}
	for i, bar := range b.Bars { // over the mark, so that they can be read there
		y := high*float64(i+1) - barApart - 8
		if width >= wide {
			c.Text(left-10, y, "end", bar.Label)
		} else {
			c.Text(left, y-barHigh+2, "", bar.Label)
		}
		c.Text(min(x.Px(bar.Value)+8, right-long(b.text(bar))*boldly), y, "bold", b.text(bar))
	}
	c.Height = int(bottom) + 4
	if b.Mark != nil {
		c.Height += above
	}
	return c
}

// mark writes its label to the side on which there is more room.
func (b Bars) mark(c *svg.Canvas, x svg.Scale, bottom float64) {
	at := x.Px(b.Mark.At)
	c.Line("mark", at, 0, at, bottom+4)
	class, beside := "small", max(min(at-2, float64(c.Width)-long(b.Mark.Label)), 0)
	if at > float64(c.Width)/2 {
		class, beside = "small end", min(max(at+2, long(b.Mark.Label)), float64(c.Width))
	}
	c.Text(beside, bottom+18, class, b.Mark.Label)
}

func (b Bar) color() Color {
	if b.Color == "" {
		return Grey
	}
	return b.Color
}

// most is the end of the scale.
func (b Bars) most() float64 {
	most := 0.0
	for _, bar := range b.Bars {
		most = max(most, bar.Value)
	}
	if b.Mark != nil {
		most = max(most, b.Mark.At)
	}
	if most == 0 {
		return 1
	}
	return most
}

func (b Bars) text(bar Bar) string {
	if bar.Text != "" {
		return bar.Text
	}
	return strings.TrimSpace(number(bar.Value) + " " + b.Unit)
}

func (b Bars) widest(of func(Bar) string) float64 {
	most := 0.0
	for _, bar := range b.Bars {
		most = max(most, long(of(bar)))
	}
	return most
}

// long is about how many pixels words take: nobody can measure them before they are shown.
func long(words string) float64 { return 7.4 * float64(utf8.RuneCountInString(words)) }

// boldly is how much longer they are in bold.
const boldly = 1.14

// wrapped is words in lines of at most so many pixels.
func wrapped(words string, width float64) (lines []string) {
	line := ""
	for _, word := range strings.Fields(words) {
		if line != "" && long(line+" "+word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

func (b Bars) words() (title, about, note string) {
	var all []string
	for _, bar := range b.Bars {
		all = append(all, bar.Label+": "+b.text(bar))
	}
	about = "Bars. " + strings.Join(all, "; ") + "."
	if b.Mark != nil {
		about += " A mark: " + b.Mark.Label + "."
	}
	return b.Title, about, b.Note
}

func (b Bars) figures() Table {
	name := "value"
	if b.Unit != "" {
		name = b.Unit
	}
	t := Table{Columns: []string{"", name}}
	for _, bar := range b.Bars {
		t.Rows = append(t.Rows, []string{bar.Label, b.text(bar)})
	}
	return t
}

func (b Bars) check() error {
	if len(b.Bars) == 0 {
		return fmt.Errorf("the chart %q has no bars", b.Title)
	}
	for _, bar := range b.Bars {
		if !(bar.Value >= 0) || math.IsInf(bar.Value, 0) {
			return fmt.Errorf("the chart %q: the bar %q has the value %v; it takes 0 and more", b.Title, bar.Label, bar.Value)
		}
	}
	return nil
}
