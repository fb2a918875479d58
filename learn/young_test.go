package learn_test

import (
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/learn"
)

// brokenAfter is how many runs after a class of so many doubled it was broken; -1 for never.
func brokenAfter(before, after int, peak func(run int) gate.Bytes) int {
	broke := -1
	life(before+after, 1, peak, func(run int, e learn.Estimate) {
		if e.Broken && broke < 0 {
			broke = run + 1 - before
		}
	})
	return broke
}

// Row 9: a class that doubles soon after it was learned, when little taught it.
func TestAYoungClassThatDoubles(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	worst := 0
	for _, before := range []int{31, 35, 40, 45, 50, 59, 60, 65, 90, 119, 130, 400} {
		for range 12 {
			broke := brokenAfter(before, 150, func(run int) gate.Bytes {
				if run < before {
					return aClass(r)
				}
				return 2 * aClass(r)
			})
			if broke < 1 || broke > 60 {
				t.Errorf("%d runs before: broken after %d (-1: never)", before, broke)
			}
			worst = max(worst, broke)
		}
	}
	t.Logf("broken after at most %d runs", worst)
}

// lives is how many classes of each kind are watched while they are young. Whether it is less than
// one in a million runs takes more of them, and minutes: go test ./learn -run Young -lives 6000.
var lives = flag.Int("lives", 60, "young classes of each kind that stay as they were")

// Row 9: what little taught a young class is held against it no more than chance allows: from 30
// runs on, through its first windows, whether it has a tail or is wide.
func TestAYoungClassThatStaysIsNeverBroken(t *testing.T) {
	runs, broken := 0, 0
	for name, peak := range map[string]func(*rand.Rand) gate.Bytes{
		"a class":          aClass,
		"one in seven far": func(r *rand.Rand) gate.Bytes { return gate.FromMiB(200 + 20*r.Int64N(2) + 700*(r.Int64N(7)/6)) },
		"exponential":      func(r *rand.Rand) gate.Bytes { return gate.FromMiB(50 + int64(300*r.ExpFloat64())) },
		"lognormal":        func(r *rand.Rand) gate.Bytes { return gate.FromMiB(int64(200 * math.Exp(r.NormFloat64()))) },
	} {
		r := rand.New(rand.NewPCG(7, 8))
		before := broken
		for range *lives {
			runs += 100
			if brokenAfter(learn.Enough, 100, func(int) gate.Bytes { return peak(r) }) > 0 {
				broken++
			}
		}
		t.Logf("%s: %d of %d classes broken", name, broken-before, *lives)
	}
	t.Logf("%d broken in %d runs", broken, runs)
	if broken > runs/1_000_000 {
		t.Error("a class that stays as it was may break once in a million runs")
	}
}

// Row 9, with the runs of real processes that docs/pictures/learning.svg shows.
func TestMeasuredRunsThatDouble(t *testing.T) {
	peaks, doubled := measured(t)
	for _, before := range []int{31, 35, 40, 50, doubled} {
		row := append(append([]gate.Bytes{}, peaks[:before]...), peaks[doubled:]...)
		broke := brokenAfter(before, len(row)-before, func(run int) gate.Bytes { return row[run] })
		t.Logf("%d runs before: broken after %d", before, broke)
		if broke < 1 {
			t.Errorf("%d runs before: never broken", before)
		}
	}
}

// measured are the peaks of internal/pictures/data/learning.csv, and from where on they doubled.
func measured(t *testing.T) (peaks []gate.Bytes, doubled int) {
	file, err := os.Open("../internal/pictures/data/learning.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows := csv.NewReader(file)
	rows.Comment = '#'
	all, err := rows.ReadAll()
	if err != nil || fmt.Sprint(all[0]) != "[run reserve_mb peak_mb doubled]" {
		t.Fatal(err, all)
	}
	for _, row := range all[1:] {
		mib, err := strconv.ParseInt(row[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		peaks = append(peaks, gate.FromMiB(mib))
		if row[3] == "0" {
			doubled = len(peaks)
		}
	}
	return peaks, doubled
}
