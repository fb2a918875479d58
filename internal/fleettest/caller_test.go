package fleettest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// caller asks for one sandbox after the other, through the SDK, in all the ways there are.
type caller struct {
	name     string
	consumer string
	class    string
	queues   bool
	hung     time.Duration // how long after the end of its patience a call may go on
	book     *book
	client   *client.Client
	provider *provider
	rng      *rand.Rand
	since    time.Time // of the first call in a row that had no answer; zero: the last one had
}

// hung is how long after the end of its own patience a call may go on where what is stopped
// goes on, and what is killed starts again, well before.
const hung = 10 * time.Second

// run goes on until ctx ends, and then leaves everything as it is.
func (c *caller) run(ctx context.Context) {
	key := ""
	for i := 0; ctx.Err() == nil; i++ {
		if key == "" || c.rng.IntN(3) > 0 {
			key = fmt.Sprintf("%s-%d", c.name, i)
		}
		if a := c.ask(ctx, key); a != nil {
			c.use(ctx, a)
		}
		sleep(ctx, c.upTo(60*time.Millisecond))
	}
}

func (c *caller) upTo(d time.Duration) time.Duration { return time.Duration(c.rng.Int64N(int64(d))) }

func (c *caller) oneIn(n int) bool { return c.rng.IntN(n) == 0 }

// request is what a key stands for.
func (c *caller) request(key string) api.AdmissionRequest {
	q := api.AdmissionRequest{Key: key, Class: c.class}
	if c.queues {
		age := (4 * time.Second).Milliseconds()
		q.Mode, q.MaxQueueAgeMS = api.WaitModeQueue, &age
	}
	return q
}

// ask asks until it has a yes or no patience left. Who waits in the queue may come back, give
// the place back, or walk away.
func (c *caller) ask(ctx context.Context, key string) *api.Admission {
	c.book.asked(c.consumer, key)
	patience := 300*time.Millisecond + c.upTo(2*time.Second)
	twin := c.twin(ctx, key)
	a, err := c.admit(ctx, patience, func(ctx context.Context, o client.Options) (*api.Admission, error) {
		return c.client.Admit(ctx, c.request(key), o)
	})
	if waits := (*client.StillWaiting)(nil); errors.As(err, &waits) && !c.oneIn(4) {
		a, err = c.admit(ctx, patience, func(ctx context.Context, o client.Options) (*api.Admission, error) {
			return c.client.Resume(ctx, key, o)
		})
	}
	if other := twin(); a == nil {
		a = other
	}
	unheard := errors.As(err, new(*client.Unreachable))
	left := client.NotNow(err) && !unheard && !errors.Is(err, api.PoolFull) // perhaps, of a place or more
	if a == nil && left && !c.oneIn(8) {
		c.release(ctx, key)
	}
	return a
}

// twin asks for the same key at the same moment, now and then, from elsewhere.
func (c *caller) twin(ctx context.Context, key string) (answer func() *api.Admission) {
	if !c.oneIn(6) {
		return func() *api.Admission { return nil }
	}
	var a *api.Admission
	var both sync.WaitGroup
	both.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		var err error
		if a, err = c.client.Admit(ctx, c.request(key), client.Options{Wait: client.Once}); err == nil {
			c.book.yes(c.consumer, a)
		}
	})
	return func() *api.Admission {
		both.Wait()
		return a
	}
}

func (c *caller) admit(ctx context.Context, patience time.Duration, do func(context.Context, client.Options) (*api.Admission, error)) (*api.Admission, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+c.hung)
	defer cancel()
	a, err := do(ctx, client.Options{
		Wait: client.Within(patience), Progress: func(api.Waiting) { c.heard() }, Retry: func(err error, _ time.Duration) { c.told(err) },
		KeepPlace: true,
	})
	switch refusal, refused := api.AsRefusal(err); {
	case err == nil:
		c.book.yes(c.consumer, a)
		c.heard()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		c.book.t.Errorf("%s was not answered within %v: %v", c.name, patience+c.hung, err)
	case refused && refusal.Code != api.Unavailable:
		c.book.count(string(refusal.Code))
		c.heard()
	case errors.Is(err, api.WaitingCapacity):
		c.book.count("still waiting")
		c.heard()
	case ctx.Err() == nil:
		c.book.count("no answer")
		c.told(err)
		if in := client.RetryAfter(err); in > 5*time.Second {
			c.book.t.Errorf("%s is told to come back in %v: %v", c.name, in, err)
		}
	}
	return a, err
}

// told is a no, or nothing at all.
func (c *caller) told(err error) {
	if refusal, refused := api.AsRefusal(err); refused && refusal.Code != api.Unavailable {
		c.heard()
	} else {
		c.unheard()
	}
}

// heard and unheard find the longest time in which this caller had no answer but unavailable.
func (c *caller) heard() {
	if !c.since.IsZero() {
		c.book.outage(time.Since(c.since))
		c.since = time.Time{}
	}
}

func (c *caller) unheard() {
	if c.since.IsZero() {
		c.since = time.Now()
	}
}

// use boots most of what was admitted, keeps it for a while, and gives it back; some leave it.
func (c *caller) use(ctx context.Context, a *api.Admission) {
	holds := c.upTo(250 * time.Millisecond)
	switch {
	case c.oneIn(50):
		holds = slotTTL + c.upTo(3*time.Second)
	case c.oneIn(8):
		holds *= 12
	}
	if !c.oneIn(4) {
		booting, cancel := context.WithTimeout(ctx, slotTTL/3)
		_ = c.provider.boot(booting, a, holds+time.Second)
		cancel()
	}
	if !c.keep(ctx, a, holds) || c.oneIn(50) {
		c.book.gone(c.consumer, a.Key, false)
		c.book.count("left")
		return
	}
	c.provider.end(a)
	if c.giveBack(ctx, a) && c.oneIn(8) {
		c.provider.misuse(ctx, a)
	}
}

// keep sends heartbeats for a while, each when it is due after the last one that was answered, or at once again when it was not; false: ctx ended.
func (c *caller) keep(ctx context.Context, a *api.Admission, d time.Duration) bool {
	until, next := time.Now().Add(d), time.Now().Add(c.due(a))
	for time.Now().Before(until) {
		sleep(ctx, time.Until(earlier(next, until)))
		if ctx.Err() != nil {
			return false
		}
		if time.Now().Before(next) {
			return true
		}
		kept := c.heartbeat(ctx, a)
		next = time.Now().Add(100 * time.Millisecond)
		if kept != nil {
			next = time.Now().Add(c.due(kept))
		}
	}
	return true
}

// due is in how long to send a heartbeat; some callers do so early.
func (c *caller) due(a *api.Admission) time.Duration {
	d := time.Duration(a.HeartbeatMS) * time.Millisecond
	if c.queues {
		return d / 6
	}
	return d
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// heartbeat is one; nil: it was not answered.
func (c *caller) heartbeat(ctx context.Context, a *api.Admission) *api.Admission {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	kept, err := c.client.Heartbeat(ctx, a.Key)
	switch refusal, refused := api.AsRefusal(err); {
	case err == nil && kept.Epoch == a.Epoch && (kept.State == api.AdmissionStateAdmitted || kept.State == api.AdmissionStateRunning):
		c.book.count("kept")
		c.heard()
		return kept
	case err == nil:
		c.book.lost(c.consumer, a.Key, fmt.Sprintf("%s at epoch %d, and was admitted at %d", kept.State, kept.Epoch, a.Epoch))
	case refused && refusal.Code != api.Unavailable:
		c.book.lost(c.consumer, a.Key, err)
	default:
		c.unheard()
	}
	return nil
}

// giveBack releases what was admitted; false: whether it is, nobody knows.
func (c *caller) giveBack(ctx context.Context, a *api.Admission) bool {
	return c.released(ctx, a.Key, func(ctx context.Context) error {
		_, err := c.client.ReleaseAdmission(ctx, a)
		return err
	})
}

// release gives up whatever a key stands for.
func (c *caller) release(ctx context.Context, key string) bool {
	return c.released(ctx, key, func(ctx context.Context) error {
		_, err := c.client.Release(ctx, key)
		return err
	})
}

func (c *caller) released(ctx context.Context, key string, release func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hung)
	defer cancel()
	err := release(ctx)
	ok := err == nil || errors.Is(err, api.NotFound)
	c.book.gone(c.consumer, key, ok)
	if ok {
		c.book.count("released")
		c.heard()
	}
	return ok
}
