package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// world is the clock, the randomness, what is still to happen, and the history so far.
type world struct {
	now    time.Duration
	rand   *rand.Rand
	agenda agenda
	serial int64
	digest uint64
	events int64
	story  io.Writer // nil: nobody reads along
	tame   bool      // nothing goes wrong by chance; only how long things take is drawn
}

func newWorld(seed uint64) world {
	return world{rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), digest: 14695981039346656037}
}

// after schedules something. What happens at one instant happens in the order in which it
// was scheduled, on every machine.
func (w *world) after(delay time.Duration, do func()) {
	w.serial++
	w.agenda.push(item{when: w.now + max(delay, 0), serial: w.serial, do: do})
}

// step does what comes next; false when nothing is left before the horizon.
func (w *world) step(horizon time.Duration) bool {
	if len(w.agenda) == 0 || w.agenda[0].when > horizon {
		w.now = max(w.now, horizon)
		return false
	}
	next := w.agenda.pop()
	w.now = next.when
	w.events++
	next.do()
	return true
}

// fact adds to the digest what happened; two histories with the same facts are the same.
func (w *world) fact(what fact, id string, n int64) {
	w.mix(uint64(w.now))
	w.mix(uint64(what))
	for i := range len(id) {
		w.digest = (w.digest ^ uint64(id[i])) * 1099511628211
	}
	w.mix(uint64(n))
}

func (w *world) mix(x uint64) {
	for range 8 {
		w.digest = (w.digest ^ (x & 0xff)) * 1099511628211
		x >>= 8
	}
}

// fact is a kind of event that the digest stands for.
type fact uint8

const (
	factFault fact = iota
	factGrant
	factReserve
	factAnswer
	factBoot
	factExit
	factRedeem
)

// tell writes a line of the transcript, for people.
func (w *world) tell(format string, args ...any) {
	if w.story != nil {
		fmt.Fprintf(w.story, "%9.3fs  "+format+"\n", append([]any{w.now.Seconds()}, args...)...)
	}
}

func (w *world) chance(percent int) bool { return percent > 0 && !w.tame && w.rand.IntN(100) < percent }

// between draws a duration.
func (w *world) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(w.rand.Int64N(int64(hi-lo)+1))
}

type item struct {
	when   time.Duration
	serial int64
	do     func()
}

func (a item) before(b item) bool {
	if a.when != b.when {
		return a.when < b.when
	}
	return a.serial < b.serial
}

// agenda is a heap of four children a node: shallow, and without a boxed element.
type agenda []item

func (a *agenda) push(it item) {
	*a = append(*a, it)
	h, i := *a, len(*a)-1
	for i > 0 {
		parent := (i - 1) / 4
		if !it.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = it
}

func (a *agenda) pop() item {
	h := *a
	top, last := h[0], h[len(h)-1]
	h[len(h)-1] = item{}
	h = h[:len(h)-1]
	*a = h
	if len(h) > 0 {
		h.sink(last)
	}
	return top
}

// sink puts an item in from the top.
func (h agenda) sink(it item) {
	i := 0
	for {
		child, end := 4*i+1, min(4*i+5, len(h))
		if child >= len(h) {
			break
		}
		for c := child + 1; c < end; c++ {
			if h[c].before(h[child]) {
				child = c
			}
		}
		if !h[child].before(it) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = it
}
