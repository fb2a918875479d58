package report

import (
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/report/reporttest"
)

// crowded has charts that are hard to fit: long names, lines that end together, many marks.
func crowded() *Page {
	far := Lines{
		Title: "Far", X: Axis{Name: "seconds since the load began to be three times what is released"}, Y: Axis{Name: "attempts in a second"},
		At: []Mark{{60, "the load ends"}, {95, "the backlog could be empty"}, {299, "the end"}},
	}
	near := Lines{Title: "Near", X: Axis{Name: "replicas", Log: true}, Y: Axis{Name: "excess", Log: true}, Limits: []Mark{{5e-4, "the target at 95 %"}}}
	for i, name := range []string{"fixed", "exponential, no jitter", "essay_sdk", "retry_after obeyed", "sdk"} {
		s := Series{Name: name}
		for x := range 300 {
			s.X, s.Y = append(s.X, float64(x)), append(s.Y, float64(max(0, 100*i+x*(200-x))))
		}
		far.Series = append(far.Series, s)
		near.Series = append(near.Series, Series{Name: name, X: []float64{1, 2, 4, 8, 16}, Y: []float64{0, 1e-9, 1e-5, 1e-3, power(-i)}})
	}
	long := Bars{Title: "Bars", Unit: "kills", Mark: &Mark{At: 100, Label: "a limit of which much can be said"}, Bars: []Bar{
		{Label: "committed, with a quota for each tenant", Value: 100, Text: "1,234,567 MiB, over physical memory"}, {Label: "none", Value: 0}, {Label: "learned", Value: 99.9},
	}}
	return &Page{
		Title: "Crowded", Lead: "A long word: " + "a/very/long/path/of/a/file", Command: "plimsoll sim regimes --runs /a/path/that/is/long/and/has/no/place/to/break/runs.csv",
		Figures:  []Figure{{"1,234,567 MiB", "the first", "", Red}, {"12.3 %", "the second", "committed: 99.9 %", ""}, {"3", "the third", "", ""}, {"4", "the fourth", "", ""}},
		Sections: []Section{{Title: "S", Charts: []Chart{far, near, long}, Tables: []Table{{Columns: []string{"a", "a long name of a column", "another long name", "one more of them", "the last of them"}, Rows: [][]string{{"a", "1,234,567 MiB", "1,234,567 MiB", "1,234,567 MiB", "1,234,567 MiB"}}}}}},
	}
}

// A page fits its window from 320 pixels on, and what is written in a chart can be read.
func TestPageInABrowser(t *testing.T) {
	for _, p := range []*Page{sample(), crowded()} {
		t.Run(p.Title, func(t *testing.T) { reporttest.InBrowser(t, written(t, p)) })
	}
}
