package herd

import (
	"math"
	"math/rand/v2"
	"time"
)

// ErlangB is the part of creates that one pool of so many slots refuses in the mean, offered so
// many at a time, whatever the lives are distributed like.
func ErlangB(slots int, offered float64) float64 {
	b := 1.0
	for n := 1; n <= slots; n++ {
		b = offered * b / (float64(n) + offered*b)
	}
	return b
}

// traffic is what comes: Poisson, with exponential lives. Equal seeds come alike, so that every
// policy, with any number of replicas, is asked for the very same creates at the same instants.
type traffic struct {
	rate float64 // a second
	life time.Duration
	seed uint64
}

// arrivals deals them out one by one.
type arrivals struct {
	traffic
	rand *rand.Rand
	now  time.Duration
	nth  int
}

func (t traffic) arrivals() *arrivals {
	return &arrivals{traffic: t, rand: rand.New(rand.NewPCG(t.seed, 0x617272)), nth: -1}
}

// next is the next create, and a number in [0, 1) that says to which replica it comes.
func (a *arrivals) next() (c create, at float64) {
	a.nth++
	a.now += time.Duration(a.rand.ExpFloat64() / a.rate * float64(time.Second))
	c = create{at: a.now, life: time.Duration(a.rand.ExpFloat64() * float64(a.life)), nth: a.nth}
	return c, a.rand.Float64()
}

// pooled plays the creates on one pool that holds all slots, and calls refused with each that
// finds none free.
func pooled(t traffic, slots, creates int, refused func(nth int)) {
	a := t.arrivals()
	var ends agenda
	busy := 0
	for range creates {
		c, _ := a.next()
		for len(ends.heap) > 0 && ends.heap[0].at <= c.at {
			ends.step()
		}
		if busy >= slots {
			refused(c.nth)
			continue
		}
		busy++
		ends.at(c.at+c.life, func() { busy-- })
	}
}

// batches counts what is refused in so many equal parts of a play, so that their spread says how
// far the mean may be off.
type batches struct {
	warm, size int // creates before the first, and in each
	n          [parts]float64
}

const parts = 20

func newBatches(warm, creates int) batches { return batches{warm: warm, size: max(creates/parts, 1)} }

func (b *batches) count(nth int) {
	if nth < b.warm {
		return
	}
	if k := (nth - b.warm) / b.size; k < parts {
		b.n[k]++
	}
}

// share is the mean part, and its standard error.
func (b *batches) share() (mean, se float64) { return spread(b.n, b.size) }

// beyond is by how much more is refused than in another play of the same creates.
func (b *batches) beyond(o *batches) (mean, se float64) {
	d := b.n
	for i := range d {
		d[i] -= o.n[i]
	}
	return spread(d, b.size)
}

func spread(n [parts]float64, size int) (mean, se float64) {
	for _, x := range n {
		mean += x / float64(size) / parts
	}
	var sum float64
	for _, x := range n {
		d := x/float64(size) - mean
		sum += d * d
	}
	return mean, math.Sqrt(sum / (parts - 1) / parts)
}
