// Package bench measures the hot paths in process: what plimsoll bench pick, plimsoll bench
// ticket and plimsoll bench store print. A figure is told beside a peer's from the same run, on the same table and
// stream of requests, since a nanosecond means little on another machine.
//
// It decides nothing and asserts nothing: a time is never a test. Operations are timed in small
// batches and a sample is a batch's mean, because reading the clock costs 60 ns itself; each
// operation still pays an eighth of that.
package bench

import (
	"math"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Batch is how many operations are timed together.
const Batch = 8

// Times are the percentiles of one operation.
type Times struct {
	P50 int64 `json:"p50_ns"`
	P99 int64 `json:"p99_ns"`
}

// measured is a run's times and what it allocated.
type measured struct {
	Times
	allocs float64
}

// measure times ops operations in batches of batch, after a warm-up of a quarter as many.
func measure(ops, batch int, op func()) measured {
	for range ops / 4 {
		op()
	}
	h := hdrhistogram.New(1, int64(time.Minute), 3)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range max(ops/batch, 1) {
		start := time.Now()
		for range batch {
			op()
		}
		// Beyond a minute a batch is lost: then the machine was not ours.
		_ = h.RecordValue(max(int64(time.Since(start))/int64(batch), 1))
	}
	runtime.ReadMemStats(&after)
	perOp := float64(after.Mallocs-before.Mallocs) / float64(max(ops/batch, 1)*batch)
	return measured{
		Times:  Times{P50: h.ValueAtQuantile(50), P99: h.ValueAtQuantile(99)},
		allocs: math.Round(perOp*100) / 100,
	}
}

// heap is what is live on the heap.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
