// Package sim runs the production core in virtual time: package host for the agents,
// package admission, table and pool.Model for the replicas and their store. It is another
// shell around the same code: no goroutine, no wall clock, one seed, one history.
//
// Frames are delayed, lost, doubled and reordered; agents are killed and come back with or
// without their state; the store fails before, or after, it persisted. After every event
// the invariants are checked; when callers have gone quiet, every gauge must be zero.
package sim

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"time"
)

// world is the clock, the randomness and what is still to happen.
type world struct {
	now    time.Duration
	rand   *rand.Rand
	queue  agenda
	serial int64 // breaks ties by order of scheduling
	digest io.Writer
	events int64
}

func newWorld(seed uint64) *world {
	return &world{rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), digest: fnv.New64a()}
}

// at schedules something after a delay.
func (w *world) at(delay time.Duration, do func()) {
	w.serial++
	heap.Push(&w.queue, item{when: w.now + max(delay, 0), serial: w.serial, do: do})
}

// step does what comes next; false when nothing is left before the horizon.
func (w *world) step(horizon time.Duration) bool {
	if len(w.queue) == 0 || w.queue[0].when > horizon {
		w.now = max(w.now, horizon)
		return false
	}
	next := heap.Pop(&w.queue).(item)
	w.now = next.when
	w.events++
	next.do()
	return true
}

// note adds a fact to the history that the digest stands for.
func (w *world) note(format string, args ...any) {
	fmt.Fprintf(w.digest, "%d ", w.now)
	fmt.Fprintf(w.digest, format, args...)
}

func (w *world) chance(percent int) bool { return w.rand.IntN(100) < percent }

// between draws a duration.
func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rand.Int64N(int64(hi-lo)+1))
}

// send delivers a frame: late, twice, or never.
func (w *world) send(f faults, deliver func()) {
	if w.chance(f.lost) {
		return
	}
	copies := 1
	if w.chance(f.doubled) {
		copies = 2
	}
	for range copies {
		delay := w.between(50*time.Microsecond, 3*time.Millisecond)
		if w.chance(f.late) {
			delay = w.between(time.Second, 20*time.Second)
		}
		w.at(delay, deliver)
	}
}

// faults are how often things go wrong, in percent.
type faults struct{ lost, doubled, late, store, dead int }

type item struct {
	when   time.Duration
	serial int64
	do     func()
}

// agenda is a heap by time, then by order of scheduling.
type agenda []item

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	if a[i].when != a[j].when {
		return a[i].when < a[j].when
	}
	return a[i].serial < a[j].serial
}
func (a *agenda) Push(x any) { *a = append(*a, x.(item)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
