package workload

import (
	"math"
	"slices"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

func inMiB(b gate.Bytes) float64 { return float64(b) / float64(gate.MiB) }

// The fitted model against the figures that it was made from.
func TestFittedModel(t *testing.T) {
	runs := Fitted(20000, 1)
	var peaks, lives, bases, places []float64
	for _, r := range runs {
		row := make([]float64, len(r.Resident))
		at := 0
		for s, b := range r.Resident {
			row[s] = inMiB(b)
			if row[s] > row[at] {
				at = s
			}
		}
		places = append(places, (float64(at)+0.5)/float64(len(row)))
		slices.Sort(row)
		bases = append(bases, row[len(row)/4])
		peaks, lives = append(peaks, inMiB(r.Peak)), append(lives, float64(len(row)))
	}
	for _, c := range []struct {
		name           string
		of             []float64
		part, want, by float64 // by: how far off, as a part of it
	}{
		{"baseline p5", bases, 0.05, 156, 0.05},
		{"baseline p50", bases, 0.50, 190, 0.05},
		{"baseline p95", bases, 0.95, 224, 0.15},
		{"life p50", lives, 0.50, 278, 0.05},
		{"peak p25", peaks, 0.25, 242, 0.05},
		{"peak p50", peaks, 0.50, 278, 0.05},
		{"peak p75", peaks, 0.75, 331, 0.15},
		{"peak p90", peaks, 0.90, 423, 0.15},
		{"peak p95", peaks, 0.95, 792, 0.25},
		{"peak p99", peaks, 0.99, 1980, 0.15},
		{"peak at", places, 0.50, 0.63, 0.15},
	} {
		slices.Sort(c.of)
		got := c.of[int(c.part*float64(len(c.of)))]
		t.Logf("%-12s %8.2f, real %8.2f", c.name, got, c.want)
		if math.Abs(got-c.want) > c.by*c.want {
			t.Errorf("%s: %.2f, the real runs have %.2f", c.name, got, c.want)
		}
	}
	if most := slices.Max(peaks); most > 3900 {
		t.Errorf("a peak of %.0f MiB, the most of the real runs is 3,872", most)
	}
}
