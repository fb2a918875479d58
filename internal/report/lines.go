package report

import (
	"cmp"
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
	At          []Mark // moments: marks across, at amounts of X
	Limits      []Mark // marks along, at amounts of Y
}

// Axis is one of the two. Without From and To it reaches as far as its values do, and that of Y
// begins at 0. On an axis in powers 0 lies on the edge, and is written there.
type Axis struct {
	Name     string // with its unit
	Log      bool
	From, To float64
	Ticks    []float64 // empty: those that say most
}

// Series is one of the lines.
type Series struct {
	Name  string
	Color Color
	X, Y  []float64
}

// Draw draws them. Their names are above where there is little room, or where they end together.
func (l Lines) Draw(width int) *svg.Canvas {
	x, y := l.rulers()
	p := &svg.Plot{Canvas: &svg.Canvas{Width: width}, X: x.scale(), Y: y.scale()}
	high, right := 270.0, 14.0
	if width < wide {
		high = 220
	}
	p.Y.At, p.Y.End = high, 0
	named := width >= wide && l.endApart(p.Y)
	if named {
		for _, s := range l.Series {
			right = max(right, long(s.Name)*boldly+14)
		}
	}
	p.X.At, p.X.End = widest(y.ticks(p.Y))+16, float64(width)-right
	top := 22.0
	if !named {
		top += l.namesAbove(p)
	}
	for _, line := range wrapped(l.Y.Name, float64(width)) {
		p.Text(2, top, "small", line)
		top += 18
	}
	p.Y.At, p.Y.End = top+high, top
	l.axes(p, x.ticks(p.X), y.ticks(p.Y))
	l.curves(p)
	l.marks(p)
	if named {
		l.namesAtEnds(p)
	}
	p.Height = int(p.Y.At) + 26
	for _, line := range wrapped(l.X.Name, p.X.End-p.X.At) {
		p.Text((p.X.At+p.X.End)/2, float64(p.Height+13), "small mid", line)
		p.Height += 18
	}
	p.Height += 4
	return p.Canvas
}

// rulers are the axes over all values. A limit is one of them.
func (l Lines) rulers() (x, y ruler) {
	var xs, ys [][]float64
	for _, s := range l.Series {
		xs, ys = append(xs, s.X), append(ys, s.Y)
	}
	for _, m := range l.Limits {
		ys = append(ys, []float64{m.At})
	}
	return l.X.over(0.25, xs...), l.Y.over(1, ys...)
}

func widest(ticks []tick) float64 {
	most := 0.0
	for _, t := range ticks {
		most = max(most, long(t.words))
	}
	return most
}

func (l Lines) axes(p *svg.Plot, x, y []tick) {
	for _, t := range y {
		p.Line("grid", p.X.At, p.Y.Px(t.at), p.X.End, p.Y.Px(t.at))
		p.Text(p.X.At-8, p.Y.Px(t.at)+4, "small end", t.words)
	}
	p.Line("axis", p.X.At, p.Y.At, p.X.End, p.Y.At)
	for _, t := range x {
		p.Line("axis", p.X.Px(t.at), p.Y.At, p.X.Px(t.at), p.Y.At+5)
		p.Text(p.X.Px(t.at), p.Y.At+20, "small mid", t.words)
	}
}

// marks are drawn over the lines, and written where a line is least likely to be: moments on top,
// limits at their right end.
func (l Lines) marks(p *svg.Plot) {
	for i, m := range l.At {
		at, y := p.X.Px(within(p.X, m.At)), p.Y.End+12+16*float64(i%3)
		p.Line("mark", at, p.Y.End, at, p.Y.At)
		if at+long(m.Label) > p.X.End {
			p.Text(max(at-5, min(long(m.Label), p.X.End)), y, "small end", m.Label)
			continue
		}
		p.Text(at+5, y, "small", m.Label)
	}
	for _, m := range l.Limits {
		at := p.Y.Px(within(p.Y, m.At))
		p.Line("mark", p.X.At, at, p.X.End, at)
		p.Text(p.X.End-4, at-5, "small end", m.Label)
	}
}

// mostDots is up to how many points of a line are marked each.
const mostDots = 24

func (l Lines) curves(p *svg.Plot) {
	for i, s := range l.Series {
		points := make([]svg.Point, len(s.X))
		for j := range s.X {
			points[j] = p.Point(within(p.X, s.X[j]), within(p.Y, s.Y[j]))
		}
		color := string(l.color(i))
		p.Curve(color, points)
		if len(points) <= mostDots {
			for _, at := range points {
				p.Dot(color, at.X, at.Y)
			}
		}
	}
}

// within is the amount, or the edge that it is beyond.
func within(s svg.Scale, v float64) float64 { return min(max(v, s.From), s.To) }

// namesApart is how far names are from each other, in pixels.
const namesApart = 17

// ends are where the names are beside the last points, none over another; and how far from its
// point the worst is.
func (l Lines) ends(y svg.Scale) (at []float64, off float64) {
	at = make([]float64, len(l.Series))
	order := make([]int, len(l.Series))
	for i := range l.Series {
		order[i], at[i] = i, l.end(i, y)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	for i := 1; i < len(order); i++ {
		at[order[i]] = max(at[order[i]], at[order[i-1]]+namesApart)
	}
	lowest := max(y.At, y.End)
	for i := len(order) - 1; i >= 0; i-- {
		at[order[i]] = min(at[order[i]], lowest)
		lowest = at[order[i]] - namesApart
	}
	for i := range at {
		off = max(off, math.Abs(at[i]-l.end(i, y)))
	}
	return at, off
}

func (l Lines) end(i int, y svg.Scale) float64 {
	s := l.Series[i]
	return y.Px(within(y, s.Y[len(s.Y)-1]))
}

// endApart says whether a name beside the end of its line is read as that line's.
func (l Lines) endApart(y svg.Scale) bool {
	_, off := l.ends(y)
	return off <= namesApart*1.2
}

func (l Lines) namesAtEnds(p *svg.Plot) {
	at, _ := l.ends(p.Y)
	for i, s := range l.Series {
		p.Text(p.X.End+8, at[i]+4, "bold "+string(l.color(i)), s.Name)
	}
}

// namesAbove writes them from left to right, in as many rows as it takes, and returns how high
// they are.
func (l Lines) namesAbove(p *svg.Plot) float64 {
	x, y := 2.0, 14.0
	for i, s := range l.Series {
		if need := 30 + long(s.Name)*boldly; x > 2 && x+need > float64(p.Width) {
			x, y = 2, y+20
		}
		p.Line("line thick "+string(l.color(i)), x, y-4, x+20, y-4)
		p.Text(x+26, y, "bold "+string(l.color(i)), s.Name)
		x += 42 + long(s.Name)*boldly
	}
	return y + 2
}

func (l Lines) color(i int) Color {
	if c := l.Series[i].Color; c != "" {
		return c
	}
	free := []Color{Blue, Purple, Green, Grey, Red, Orange}
	return free[i%len(free)]
}

func (l Lines) words() (title, about, note string) {
	var all []string
	for _, s := range l.Series {
		last := len(s.X) - 1
		all = append(all, fmt.Sprintf("%s: from %s at %s to %s at %s", s.Name, number(s.Y[0]), number(s.X[0]), number(s.Y[last]), number(s.X[last])))
	}
	about = fmt.Sprintf("Lines: %s over %s. %s.", l.Y.Name, l.X.Name, strings.Join(all, "; "))
	for _, m := range slices.Concat(l.At, l.Limits) {
		about += fmt.Sprintf(" A mark at %s: %s.", number(m.At), m.Label)
	}
	return l.Title, about, l.Note
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
