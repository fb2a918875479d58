package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// Lines are amounts over something, each with its name at its end.
type Lines struct {
	Title, Note string
	X, Y        Axis
	Series      []Series
}

// Axis is one of the two. Without From and To it reaches as far as its values do, and an axis
// that is not in powers begins at 0. In powers, what is 0 lies on the edge.
type Axis struct {
	Name     string // with its unit
	Log      bool
	From, To float64
	Ticks    []float64 // empty: round ones
}

// Series is one of the lines.
type Series struct {
	Name  string
	Color Color
	X, Y  []float64
}

// Draw draws them, with their names above where there is little room.
func (l Lines) Draw(width int) *svg.Canvas {
	c := &svg.Canvas{Width: width}
	names := make([]string, len(l.Series))
	for i, s := range l.Series {
		names[i] = s.Name
	}
	right, top, high := 12.0, 34.0, 300.0
	if width >= wide {
		for _, name := range names {
			right = max(right, long(name)+20)
		}
	} else {
		top += 20*float64(len(names)) + 6
		high = 220
	}
	ticks := l.Y.ticks(l.span(false))
	left := 16.0
	for _, v := range ticks {
		left = max(left, long(number(v))+16)
	}
	p := &svg.Plot{Canvas: c, X: l.X.scale(l.span(true)), Y: l.Y.scale(l.span(false))}
	p.X.At, p.X.End = left, float64(width)-right
	p.Y.At, p.Y.End = top+high, top
	l.axes(p, ticks)
	l.curves(p)
	if width >= wide {
		l.namesAtEnds(p)
	} else {
		l.namesAbove(p)
	}
	c.Height = int(p.Y.At) + 50
	return c
}

func (l Lines) axes(p *svg.Plot, ticks []float64) {
	for _, v := range ticks {
		p.Line("grid", p.X.At, p.Y.Px(v), p.X.End, p.Y.Px(v))
		p.Text(p.X.At-8, p.Y.Px(v)+4, "small end", number(v))
	}
	p.Text(2, p.Y.End-16, "small", l.Y.Name)
	p.Line("axis", p.X.At, p.Y.At, p.X.End, p.Y.At)
	for _, v := range l.X.ticks(l.span(true)) {
		p.Line("axis", p.X.Px(v), p.Y.At, p.X.Px(v), p.Y.At+5)
		p.Text(p.X.Px(v), p.Y.At+20, "small mid", number(v))
	}
	p.Text((p.X.At+p.X.End)/2, p.Y.At+40, "small mid", l.X.Name)
}

// few is up to how many points a line has each of them marked.
const few = 24

func (l Lines) curves(p *svg.Plot) {
	for i, s := range l.Series {
		points := make([]svg.Point, len(s.X))
		for j := range s.X {
			points[j] = p.Point(within(p.X, s.X[j]), within(p.Y, s.Y[j]))
		}
		color := string(l.color(i))
		p.Curve(color, points)
		if len(points) <= few {
			for _, at := range points {
				p.Dot(color, at.X, at.Y)
			}
		}
	}
}

// within is the amount, or the edge that it is beyond.
func within(s svg.Scale, v float64) float64 { return min(max(v, s.From), s.To) }

// namesAtEnds writes each name beside the last point of its line, none over another.
func (l Lines) namesAtEnds(p *svg.Plot) {
	const apart = 17
	at := make([]float64, len(l.Series))
	order := make([]int, len(l.Series))
	for i, s := range l.Series {
		order[i] = i
		at[i] = p.Y.Px(within(p.Y, s.Y[len(s.Y)-1])) + 4
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case at[a] < at[b]:
			return -1
		case at[a] > at[b]:
			return 1
		}
		return 0
	})
	for i := 1; i < len(order); i++ {
		at[order[i]] = max(at[order[i]], at[order[i-1]]+apart)
	}
	lowest := p.Y.At + 4
	for i := len(order) - 1; i >= 0; i-- {
		at[order[i]] = min(at[order[i]], lowest)
		lowest = at[order[i]] - apart
	}
	for i, s := range l.Series {
		p.Text(p.X.End+8, at[i], "bold "+string(l.color(i)), s.Name)
	}
}

func (l Lines) namesAbove(p *svg.Plot) {
	for i, s := range l.Series {
		y := 14 + 20*float64(i)
		p.Line("line "+string(l.color(i)), 2, y-4, 24, y-4)
		p.Text(32, y, "bold "+string(l.color(i)), s.Name)
	}
}

func (l Lines) color(i int) Color {
	if c := l.Series[i].Color; c != "" {
		return c
	}
	free := []Color{Blue, Purple, Green, Grey, Red, Orange}
	return free[i%len(free)]
}

// span is how far the values reach; of an axis in powers those above 0.
func (l Lines) span(ofX bool) (from, to float64) {
	log := l.Y.Log
	if ofX {
		log = l.X.Log
	}
	from, to = math.Inf(1), math.Inf(-1)
	for _, s := range l.Series {
		values := s.Y
		if ofX {
			values = s.X
		}
		for _, v := range values {
			if !log || v > 0 {
				from, to = min(from, v), max(to, v)
			}
		}
	}
	if from > to {
		return 1, 10 // there are none
	}
	return from, to
}

func (l Lines) words() (title, about, note string) {
	var all []string
	for _, s := range l.Series {
		last := len(s.X) - 1
		all = append(all, fmt.Sprintf("%s: from %s at %s to %s at %s", s.Name, number(s.Y[0]), number(s.X[0]), number(s.Y[last]), number(s.X[last])))
	}
	return l.Title, fmt.Sprintf("Lines: %s over %s. %s.", l.Y.Name, l.X.Name, strings.Join(all, "; ")), l.Note
}

func (l Lines) check() error {
	if len(l.Series) == 0 {
		return fmt.Errorf("the chart %q has no series", l.Title)
	}
	for _, s := range l.Series {
		if len(s.X) == 0 || len(s.X) != len(s.Y) {
			return fmt.Errorf("the chart %q: the series %q has %d values of x and %d of y; it takes as many of each, and at least one", l.Title, s.Name, len(s.X), len(s.Y))
		}
		for _, v := range slices.Concat(s.X, s.Y) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("the chart %q: the series %q has the value %v", l.Title, s.Name, v)
			}
		}
	}
	return nil
}

// most rows that the table of a chart has; of more, every so manieth is shown.
const mostRows = 60

// figures has a row for each x. A value that a series does not have is left empty.
func (l Lines) figures() Table {
	t := Table{Columns: []string{l.X.Name}}
	at := map[float64][]string{} // x -> a cell for each series
	var xs []float64
	for i, s := range l.Series {
		t.Columns = append(t.Columns, s.Name)
		for j, x := range s.X {
			if at[x] == nil {
				at[x] = make([]string, len(l.Series))
				xs = append(xs, x)
			}
			at[x][i] = number(s.Y[j])
		}
	}
	slices.Sort(xs)
	every := (len(xs) + mostRows - 1) / mostRows
	if every > 1 {
		t.Note = fmt.Sprintf("Every %s row of %s.", nth(every), number(float64(len(xs))))
	}
	for i := 0; i < len(xs); i += every {
		t.Rows = append(t.Rows, append([]string{number(xs[i])}, at[xs[i]]...))
	}
	return t
}

func nth(n int) string {
	switch {
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprintf("%drd", n)
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprintf("%dst", n)
	}
	return fmt.Sprintf("%dth", n)
}
