package workload

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

var shape = Shape{CPUMilli: 2000, Configured: 4 * gate.GiB}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// batches are figures of the batches in which sandboxes arrived.
type batches struct {
	p50, p90, p99, most int
	inLarge             float64 // part of the sandboxes in batches of 8 or more
}

func figuresOf(all []Arrival) batches {
	of := map[int]int{}
	for _, a := range all {
		of[a.Batch]++
	}
	return figuresOfSizes(slices.Collect(maps.Values(of)))
}

func figuresOfSizes(sizes []int) batches {
	slices.Sort(sizes)
	large, all := 0, 0
	for _, n := range sizes {
		all += n
		if n >= 8 {
			large += n
		}
	}
	at := func(percent int) int { return sizes[len(sizes)*percent/100] }
	return batches{at(50), at(90), at(99), sizes[len(sizes)-1], float64(large) / float64(all)}
}

// The sizes of batches against the figures that they were made from, at a million quantiles, so
// that no luck is in it.
func TestBatchSizes(t *testing.T) {
	sizes, sum := make([]int, 1_000_000), 0
	for i := range sizes {
		sizes[i] = batchSizeAt((float64(i) + 0.5) / float64(len(sizes)))
		sum += sizes[i]
	}
	f, mean := figuresOfSizes(sizes), float64(sum)/float64(len(sizes))
	if f.p50 != 1 || f.p90 != 6 || f.p99 != 74 || f.most != 587 || math.Abs(f.inLarge-0.68) > 0.005 {
		t.Errorf("%+v, the real ones have 1, 6, 74, 587 and 0.68", f)
	}
	if math.Abs(mean-MeanBatch()) > 0.001*mean {
		t.Errorf("%.4f in a batch on average, MeanBatch says %.4f", mean, MeanBatch())
	}
}

// Each way to arrive gives the rate that was asked for, in order, within its span; a batch is one
// instant.
func TestArrivals(t *testing.T) {
	const rate, span = 5.0, 20 * time.Hour
	for name, draw := range map[string]func(*rand.Rand, float64, time.Duration, Shape) []Arrival{"poisson": Poisson, "batched": Batched} {
		all := draw(source(1), rate, span, shape)
		if want := rate * span.Seconds(); math.Abs(float64(len(all))-want) > 0.05*want {
			t.Errorf("%s: %d arrivals, asked for %.0f", name, len(all), want)
		}
		at := map[int]time.Duration{}
		for i, a := range all {
			if i > 0 && (a.At < all[i-1].At || a.Batch < all[i-1].Batch) || a.At >= span {
				t.Fatalf("%s: %+v after %+v", name, a, all[i-1])
			}
			if first, known := at[a.Batch]; known && (first != a.At || name == "poisson") {
				t.Fatalf("%s: %+v is of a batch that came at %v", name, a, first)
			}
			at[a.Batch] = a.At
			if a.Life <= 0 || a.Configured != shape.Configured || a.CPUMilli != shape.CPUMilli || a.Censored {
				t.Fatalf("%s: %+v", name, a)
			}
		}
		if !slices.Equal(all, draw(source(1), rate, span, shape)) {
			t.Errorf("%s: the same source gave other arrivals", name)
		}
	}
	if all := Poisson(source(1), 0, span, shape); len(all) != 0 {
		t.Errorf("at a rate of 0: %d", len(all))
	}
}

// Singles come as Poisson has it: as many seconds with none, and as much spread, as it says.
func TestPoissonSpread(t *testing.T) {
	const rate, seconds = 2.0, 50_000
	counts := make([]int, seconds)
	for _, a := range Poisson(source(3), rate, seconds*time.Second, shape) {
		counts[int(a.At.Seconds())]++
	}
	none, squares := 0.0, 0.0
	for _, n := range counts {
		if n == 0 {
			none++
		}
		squares += (float64(n) - rate) * (float64(n) - rate)
	}
	if got := none / seconds; math.Abs(got-math.Exp(-rate)) > 0.01 {
		t.Errorf("%.4f of the seconds have none, want %.4f", got, math.Exp(-rate))
	}
	if got := squares / seconds; math.Abs(got-rate) > 0.1 {
		t.Errorf("a variance of %.3f, want %.3f", got, rate)
	}
}

func TestLife(t *testing.T) {
	r := source(2)
	lives := make([]time.Duration, 100_000)
	var logs, squares float64
	for i := range lives {
		lives[i] = Life(r)
		log := math.Log(lives[i].Seconds())
		logs += log
		squares += (log - lifeMu) * (log - lifeMu)
	}
	slices.Sort(lives)
	n := float64(len(lives))
	if median := lives[len(lives)/2]; math.Abs(median.Seconds()-278) > 5 || lives[len(lives)-1] > 2544*time.Second || lives[0] <= 0 {
		t.Errorf("from %v to %v, median %v", lives[0], lives[len(lives)-1], median)
	}
	if sigma := math.Sqrt(squares / n); math.Abs(logs/n-lifeMu) > 0.02 || math.Abs(sigma-lifeSigma) > 0.02 {
		t.Errorf("mu %.3f, sigma %.3f", logs/n, sigma)
	}
}
