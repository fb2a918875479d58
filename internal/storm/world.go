package storm

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// world is the clock and what is still to happen.
type world struct {
	now    time.Duration // from the beginning of the storm; below zero before it
	rand   *rand.Rand
	agenda agenda
	serial int
}

// wall is a clock for what wants one.
func (w *world) wall() time.Time { return time.Unix(1_000_000, 0).Add(w.now) }

// after schedules something. What happens at one instant happens in the order in which it was
// scheduled.
func (w *world) after(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.agenda, item{w.now + max(d, 0), w.serial, do})
}

// step does what comes next; false when nothing is left.
func (w *world) step() bool {
	if len(w.agenda) == 0 {
		return false
	}
	next := heap.Pop(&w.agenda).(item)
	w.now = next.when
	next.do()
	return true
}

type item struct {
	when   time.Duration
	serial int
	do     func()
}

type agenda []item

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if a[i].when != a[j].when {
		return a[i].when < a[j].when
	}
	return a[i].serial < a[j].serial
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(item)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1].do = nil
	*a = old[:len(old)-1]
	return last
}
