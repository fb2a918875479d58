package workload

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Shape is what each of the drawn arrivals is like.
type Shape struct {
	CPUMilli   int64
	Configured gate.Bytes
	Life       func(*rand.Rand) time.Duration // nil: Life, that of the fitted model
}

// Poisson draws singles that come at this mean rate a second, each for itself, until span is
// over. Times are whole milliseconds.
func Poisson(r *rand.Rand, rate float64, span time.Duration, shape Shape) []Arrival {
	return arrive(r, rate, span, shape, func() int { return 1 })
}

// Batched draws sandboxes that come at this mean rate a second, in batches of one tenant's that
// are asked for at once, of BatchSize; the batches come each for itself.
func Batched(r *rand.Rand, rate float64, span time.Duration, shape Shape) []Arrival {
	return arrive(r, rate/MeanBatch(), span, shape, func() int { return BatchSize(r) })
}

// arrive draws batches at this mean rate a second.
func arrive(r *rand.Rand, rate float64, span time.Duration, shape Shape, size func() int) (all []Arrival) {
	if shape.Life == nil {
		shape.Life = Life
	}
	if rate <= 0 {
		return nil
	}
	at := r.ExpFloat64() / rate
	for batch := 1; at < span.Seconds(); batch++ {
		for range size() {
			all = append(all, Arrival{
				At: wholeMS(at), Batch: batch, CPUMilli: shape.CPUMilli, Configured: shape.Configured, Life: shape.Life(r),
			})
		}
		at += r.ExpFloat64() / rate
	}
	return all
}

// Life draws how long a sandbox of the fitted model lives: lognormal, with a median of 278 s,
// and never longer than the longest that was seen.
func Life(r *rand.Rand) time.Duration { return max(wholeMS(fittedLife(r)), time.Millisecond) }

func wholeMS(seconds float64) time.Duration {
	return time.Duration(math.Floor(seconds*1000)) * time.Millisecond
}

// batchSizes is how many sandboxes one tenant asks for at once, fitted to 12 hours of a public
// cloud: batches up to this part of all, those before it aside, have from `from` to `to` of them,
// each size as likely as the next. It gives 1, 6, 74 and 587 at p50, p90, p99 and the most, and
// 68 % of all sandboxes in batches of 8 or more.
var batchSizes = []struct {
	upTo     float64
	from, to int
}{
	{0.5750, 1, 1},
	{0.7570, 2, 2},
	{0.9080, 3, 6},
	{0.9145, 7, 7},
	{0.9600, 8, 16},
	{0.9790, 17, 32},
	{0.9901, 33, 74},
	{0.9988, 75, 256},
	{1.0000, 257, 587},
}

// BatchSize draws how many sandboxes one tenant asks for at once.
func BatchSize(r *rand.Rand) int { return batchSizeAt(r.Float64()) }

// batchSizeAt is the size at this quantile, from 0 to less than 1.
func batchSizeAt(u float64) int {
	below := 0.0
	for _, part := range batchSizes {
		if u < part.upTo {
			sizes := float64(part.to - part.from + 1)
			return min(part.from+int(sizes*((u-below)/(part.upTo-below))), part.to)
		}
		below = part.upTo
	}
	return batchSizes[len(batchSizes)-1].to
}

// MeanBatch is the mean of BatchSize.
func MeanBatch() float64 {
	mean, below := 0.0, 0.0
	for _, part := range batchSizes {
		mean += float64((part.upTo - below) * float64(part.from+part.to) / 2)
		below = part.upTo
	}
	return mean
}
