package report

import (
	"slices"
	"strings"
	"testing"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", -7: "-7", 115.94: "116", 22.25: "22.2", 0.5: "0.5", 0.0123: "0.0123", 1234.5: "1,235", 1_234_567: "1,234,567", -1234: "-1,234",
		1e-6: "10⁻⁶", 3.2e-5: "3.2 × 10⁻⁵", 0.00099999: "10⁻³", 1e12: "1,000,000,000,000",
	} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

// What is written along an axis that is so long, for these values.
func TestTicks(t *testing.T) {
	var seconds []float64
	for s := range 241 {
		seconds = append(seconds, float64(s))
	}
	for _, c := range []struct {
		name   string
		axis   Axis
		near   float64
		values []float64
		want   string
	}{
		{"round ones", Axis{}, 1, seconds, "0 50 100 150 200"},
		{"from 0", Axis{}, 1, []float64{80, 118}, "0 50 100"},
		{"the values, where few", Axis{}, .25, []float64{120, 80, 100}, "80 100 120"},
		{"not the values, where they run together", Axis{}, .25, []float64{0, 1, 1000}, "0 200 400 600 800 1,000"},
		{"below 0", Axis{}, 1, []float64{-3, 4}, "-2 0 2 4"},
		{"one value", Axis{}, 1, []float64{0}, "0 0.2 0.4 0.6 0.8 1"},
		{"powers", Axis{Log: true}, 1, []float64{.002, 3}, "0.01 0.1 1"},
		{"powers of one value", Axis{Log: true}, 1, []float64{.002}, "0.001 0.01"},
		{"0 among powers", Axis{Log: true}, 1, []float64{0, 2e-6, .1}, "0 10⁻⁶ 10⁻⁵ 10⁻⁴ 0.001 0.01 0.1"},
		{"0 below its own powers", Axis{Log: true, From: 1e-6, To: 1e-3}, 1, []float64{0, 1e-4}, "≤ 10⁻⁶ 10⁻⁵ 10⁻⁴ 0.001"},
		{"less than its own powers", Axis{Log: true, From: 1e-6, To: 1e-3}, 1, []float64{1e-8, 1e-4}, "≤ 10⁻⁶ 10⁻⁵ 10⁻⁴ 0.001"},
		{"only 0", Axis{Log: true}, 1, []float64{0}, "0 1 10"},
		{"powers, the values", Axis{Log: true}, .25, []float64{1, 2, 4, 8, 16}, "1 2 4 8 16"},
		{"its own", Axis{Ticks: []float64{1, 9}}, 1, seconds, "1 9"},
		{"its own reach", Axis{From: 10, To: 20}, 1, seconds, "10 12 14 16 18 20"},
	} {
		r := c.axis.over(c.near, c.values)
		s := r.scale()
		s.At, s.End = 0, 600
		var words []string
		for _, tick := range r.ticks(s) {
			words = append(words, tick.words)
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// The table of a chart has a row for each x, and says where it leaves some out.
func TestFiguresOfLines(t *testing.T) {
	l := Lines{X: Axis{Name: "s"}, Series: []Series{{Name: "a", X: []float64{2, 1}, Y: []float64{20, 10}}, {Name: "b", X: []float64{2, 3}, Y: []float64{.2, .3}}}}
	var rows []string
	for _, row := range l.figures().Rows {
		rows = append(rows, strings.Join(row, "|"))
	}
	if want := []string{"1|10|", "2|20|0.2", "3||0.3"}; !slices.Equal(rows, want) {
		t.Errorf("%q, want %q", rows, want)
	}
	l.Series = []Series{{Name: "a", X: make([]float64, 121), Y: make([]float64, 121)}}
	for i := range l.Series[0].X {
		l.Series[0].X[i] = float64(i)
	}
	if got := l.figures(); len(got.Rows) != 41 || got.Note != "Every 3rd row of 121." {
		t.Errorf("%d rows, %q", len(got.Rows), got.Note)
	}
}
