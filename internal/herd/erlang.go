package herd

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/agenda"
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

// onePool is a pool that holds all slots and is asked for the same creates.
type onePool struct {
	batches         // of the very creates that a row plays
	se      float64 // of the part refused in a play of that length, from many such plays
}

const poolPlays = 20

// playPool plays the creates of a row, and goes on for as many again some times: refusals come in
// clusters, and where they are rare the parts of one play do not show how far it may be off.
func playPool(ctx context.Context, t traffic, slots, warm, creates int) (*onePool, error) {
	p := &onePool{batches: newBatches(warm, creates)}
	var plays [poolPlays]float64
	err := pooled(ctx, t, slots, warm+poolPlays*creates, func(nth int) {
		p.count(nth)
		if nth >= warm {
			plays[(nth-warm)/creates]++
		}
	})
	_, mean := spread(plays[:], creates)
	p.se = mean * math.Sqrt(poolPlays)
	return p, err
}

// pooled calls refused with each create that finds no slot free.
func pooled(ctx context.Context, t traffic, slots, creates int, refused func(nth int)) error {
	a := t.arrivals()
	var busy agenda.Agenda[struct{}] // each slot until it is free again
	for n := range creates {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c, _ := a.next()
		for busy.Len() > 0 && busy.Next() <= c.at {
			busy.Take()
		}
		if busy.Len() >= slots {
			refused(c.nth)
			continue
		}
		busy.Note(c.at+c.life, struct{}{})
	}
	return nil
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
func (b *batches) share() (mean, se float64) { return spread(b.n[:], b.size) }

// beyond is by how much more is refused than in another play of the same creates.
func (b *batches) beyond(o *batches) (mean, se float64) {
	d := b.n
	for i := range d {
		d[i] -= o.n[i]
	}
	return spread(d[:], b.size)
}

// spread is the mean part of counts in equal plays, and its standard error.
func spread(n []float64, size int) (mean, se float64) {
	plays := float64(len(n))
	for _, x := range n {
		mean += x / float64(size) / plays
	}
	var sum float64
	for _, x := range n {
		d := x/float64(size) - mean
		sum += d * d
	}
	return mean, math.Sqrt(sum / (plays - 1) / plays)
}
