package storm

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/plimsoll-project/plimsoll/backoff"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// arrival is one caller that comes.
type arrival struct {
	at, life time.Duration
}

// ordinary is the load before the storm, as a part of what a full pool frees.
const ordinary = 0.9

// arrivals draws who comes: at the ordinary load, for as long as it takes until the pool is
// as full as it will be, and then in the storm. Lives are exponential.
func arrivals(o *Options, r *rand.Rand) (all []arrival) {
	at := -o.before()
	for {
		rate := o.Rate() * ordinary
		if at >= 0 {
			rate = o.Rate() * o.Load
		}
		next := at + exponentially(r, 1/rate)
		if at < 0 && next > 0 {
			next = exponentially(r, 1/(o.Rate()*o.Load)) // the gaps have no memory
		}
		if at = next; at >= o.Storm {
			return all
		}
		all = append(all, arrival{at, exponentially(r, o.Life.Seconds())})
	}
}

// before is how long callers come at the ordinary load.
func (o *Options) before() time.Duration {
	if o.Before > 0 {
		return o.Before
	}
	return max(2*time.Minute, 5*o.Life)
}

func exponentially(r *rand.Rand, mean float64) time.Duration {
	return time.Duration(r.ExpFloat64() * mean * float64(time.Second))
}

// caller is one who asks.
type caller struct {
	arrival
	play     *playing
	world    *world
	kind     *kind
	id       string
	patient  patient
	deadline time.Duration
	attempts int
	waiting  bool
	told     []told
	turn     time.Duration // by the replicas' clock, as its receipt has it
}

// told is a hint and when it was given.
type told struct{ at, in time.Duration }

func (c *caller) left() time.Duration { return c.deadline - c.world.now }

// within shortens a wait to what the patience leaves, and is false where that is nothing.
func (c *caller) within(d time.Duration) (time.Duration, bool) {
	return min(d, c.left()), c.left() > 0
}

// playing is one play.
type playing struct {
	world
	service *service
	kind    kind
	out     *history
	waiters int // now
	since   time.Duration
}

// play plays one storm to its end: until nobody waits.
func play(ctx context.Context, o *Options, k kind, number uint64) (*history, error) {
	return playThese(ctx, o, k, number, arrivals(o, rand.New(rand.NewPCG(o.Seed, number))))
}

// playThese plays a storm of these callers.
func playThese(ctx context.Context, o *Options, k kind, number uint64, all []arrival) (*history, error) {
	p := &playing{kind: k, out: &history{couldBeEmpty: couldBeEmpty(o.Cap, all)}}
	p.rand = rand.New(rand.NewPCG(o.Seed+0x9e3779b97f4a7c15, number))
	p.now = -o.before()
	p.service = newService(&p.world, o)
	p.service.before = p.note
	for i, a := range all {
		c := &caller{arrival: a, play: p, world: &p.world, kind: &p.kind, id: strconv.Itoa(i)}
		p.after(a.at-p.now, c.begin)
	}
	p.after(pool.PulseEvery, p.pulse)
	p.after(-p.now+time.Second, p.second)
	for n := 0; p.now < o.Storm || p.waiters > 0; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p.step()
	}
	return p.out, p.service.store.CheckInvariants()
}

func (p *playing) pulse() {
	p.service.look()
	p.after(pool.PulseEvery, p.pulse)
}

// second notes how it stands at the end of each second.
func (p *playing) second() {
	p.out.waiting = append(p.out.waiting, p.waiters)
	p.after(time.Second, p.second)
}

// note counts the time since the last change in which slots were free and somebody waited.
func (p *playing) note() {
	if free := p.service.cap - p.service.busy; p.now > 0 && p.waiters > 0 && free > 0 {
		p.out.idle += (p.now - p.since) * time.Duration(min(free, int64(p.waiters)))
	}
	p.since = p.now
}

// begin is a caller's first call.
func (c *caller) begin() {
	c.deadline = c.world.now + c.kind.deadline
	c.patient = c.kind.begin(c)
	if c.counts() {
		c.play.out.callers++
	}
	c.post()
}

// counts says whether the caller is one of the storm.
func (c *caller) counts() bool { return c.at >= 0 }

func (c *caller) call() {
	c.attempts++
	if !c.counts() {
		return
	}
	c.play.out.call(c.world.now)
}

func (c *caller) post() {
	c.call()
	c.answered(c.play.service.claim(c, false, 0))
}

func (c *caller) answered(got pool.Claimed) {
	switch got.Verdict {
	case pool.Granted:
		c.admitted()
	case pool.Queued:
		c.queued(got)
	case pool.PatienceOut:
		c.givesUp()
	default:
		c.refused()
	}
}

func (c *caller) admitted() {
	p := c.play
	p.after(c.life, func() { p.service.release(c) })
	if !c.waiting {
		return
	}
	c.leaves()
	if c.counts() {
		p.out.waits = append(p.out.waits, p.now-c.at)
		c.judge()
	}
}

// judge compares what the caller was told with when it was admitted.
func (c *caller) judge() { c.play.out.judge(c.told, c.world.now) }

// waits notes that a caller was not admitted at once.
func (c *caller) waits() {
	if c.waiting {
		return
	}
	c.play.note()
	c.waiting = true
	c.play.waiters++
}

// leaves ends a waiter's wait, one way or the other.
func (c *caller) leaves() {
	p := c.play
	p.waiters--
	if c.counts() {
		p.out.waiters++
		p.out.attempts += c.attempts
		p.out.over = p.now
	}
}

func (c *caller) givesUp() {
	c.play.note()
	c.leaves()
	if c.counts() {
		c.play.out.gaveUps++
	}
}

func (c *caller) hear(in time.Duration) time.Duration {
	in = time.Duration(hint.Millis(in)) * time.Millisecond
	if c.kind.heeds {
		c.told = append(c.told, told{c.world.now, in})
	}
	return in
}

func (c *caller) refused() {
	c.waits()
	in, ok := c.patient.again(c, c.hear(c.play.service.refused(c)))
	if !ok {
		c.givesUp()
		return
	}
	c.world.after(in, c.post)
}

// queued holds on by long polls until its patience ends, as the SDK does.
func (c *caller) queued(got pool.Claimed) {
	c.waits()
	turn, pollAfter := c.play.service.told(got.Standing.Position)
	c.hear(turn)
	if c.left() <= 0 {
		c.givesUp()
		return
	}
	place := got.Row.Place
	away := backoff.Away(pollAfter, c.left(), control.LongestPoll)
	c.world.after(away, func() {
		c.call()
		c.play.service.attempt(c, place, min(control.LongestPoll, c.left()), c.answered)
	})
}
