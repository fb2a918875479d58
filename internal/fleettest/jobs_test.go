package fleettest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

const (
	jobCallers = 18
	mostLeft   = 5 // of all that hosts have room for, until they lapse
)

// jobs are callers who have sandboxes admitted, boot them where they are told to, and give
// them back.
type jobs struct {
	t      *testing.T
	front  *front
	book   *book
	client *client.Client
	seams  map[string]boot.Client // host -> its boot seam
	rngs   []*rand.Rand
	beside beside

	mu     sync.Mutex // guards what follows
	asked  map[string]bool
	ids    map[string]bool // of admissions that were told, by id
	left   map[string]bool // keys and ids that nobody is to give back
	leaves bool            // some are left that were not booted: they must lapse
	no     []refusedBy
}

// refusedBy is one no of a replica; -1: it is not known which.
type refusedBy struct {
	refused
	replica int
}

func newJobs(t *testing.T, replicas []*replica, agents []*hostAgent, rng *rand.Rand) *jobs {
	j := &jobs{
		t: t, front: newFront(t, replicas), book: newBook(t), seams: map[string]boot.Client{},
		asked: map[string]bool{}, ids: map[string]bool{}, left: map[string]bool{},
	}
	j.client = j.front.client("jobs")
	for _, a := range agents {
		j.seams[a.id] = a.seam()
	}
	for range jobCallers {
		j.rngs = append(j.rngs, rand.New(rand.NewPCG(rng.Uint64(), 1)))
	}
	return j
}

func (j *jobs) begin() {
	ctx, stop := context.WithCancel(j.t.Context())
	j.beside.stop = stop
	for i, rng := range j.rngs {
		c := &caller{name: fmt.Sprintf("j%d", i), consumer: "jobs", class: []string{"capped", "free", "hosted"}[i%3], hung: hung, book: j.book, client: j.client, rng: rng}
		j.beside.all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				j.once(ctx, c, fmt.Sprintf("%s-%d", c.name, n))
				sleep(ctx, c.upTo(50*time.Millisecond))
			}
		})
	}
}

func (j *jobs) stop() {
	j.beside.stop()
	j.beside.all.Wait()
}

// once is one job: asked for, booted, held for a while and given back. Some are not booted,
// and some of those are left.
func (j *jobs) once(ctx context.Context, c *caller, key string) {
	hosted := c.class == "hosted"
	if !hosted { // the replica that took it alone knows its key
		j.note(func() { j.asked[key] = true })
		c.book.asked(c.consumer, key)
	}
	asked := time.Now()
	a := j.admit(ctx, c, key, asked)
	if a == nil {
		return
	}
	j.note(func() { j.ids[a.ID] = true })
	if !c.oneIn(5) {
		j.boot(ctx, c, a)
	} else if c.oneIn(2) && j.leave(a) {
		c.book.count("left to lapse")
		if !hosted {
			c.book.gone(c.consumer, key, false)
		}
		return
	}
	sleep(ctx, c.upTo(700*time.Millisecond))
	j.release(ctx, c, a)
}

func (j *jobs) admit(ctx context.Context, c *caller, key string, asked time.Time) *api.Admission {
	patience := time.Duration(0)
	if c.oneIn(2) {
		patience = c.upTo(3 * time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, patience+c.hung)
	defer cancel()
	last := &sent{at: asked, replica: -1}
	ctx = context.WithValue(ctx, sentKey{}, last)
	a, err := c.client.Admit(ctx, c.request(key), client.Options{
		Wait: client.Within(patience), Retry: func(err error, _ time.Duration) { c.told(err) }, KeepPlace: true,
	})
	switch r, ok := api.AsRefusal(err); {
	case err == nil:
		c.heard()
		if c.class != "hosted" {
			c.book.yes(c.consumer, a)
		}
		c.book.count("yes " + c.class)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		j.t.Errorf("%s was not answered within %v: %v", key, patience+c.hung, err)
	case ok && r.Code != api.Unavailable:
		c.heard()
		c.book.count(string(r.Code))
		if r.Code == api.NoCapacity && patience == 0 {
			no := refusedBy{refused{last.at, time.Now(), faultNeedMB}, last.replica}
			j.note(func() { j.no = append(j.no, no) })
		}
	case ctx.Err() == nil:
		c.book.count("no answer")
		c.unheard()
	}
	return a
}

func (j *jobs) boot(ctx context.Context, c *caller, a *api.Admission) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := j.seams[a.Host].Run(ctx, a.Ticket, boot.Command{Argv: []string{"/bin/sleep", "600"}, Detach: true}, io.Discard, io.Discard, nil)
	if err == nil {
		c.book.count("booted")
	} else {
		c.book.count("not booted")
	}
}

func (j *jobs) release(ctx context.Context, c *caller, a *api.Admission) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	c.book.count("released")
	if c.class == "hosted" {
		if _, err := c.client.ReleaseID(ctx, a.ID); err != nil {
			c.book.count("release unanswered")
		}
		return
	}
	c.book.gone(c.consumer, a.Key, true)
	if _, err := c.client.Release(ctx, a.Key); err != nil {
		c.book.count("release unanswered")
	}
}

// giveAllBack releases whatever may still be held, as often as it takes.
func (j *jobs) giveAllBack() {
	var all sync.WaitGroup
	limit := make(chan struct{}, 32)
	release := func(name string, do func(context.Context, string) (*api.Admission, error)) {
		if j.left[name] {
			return
		}
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			ctx, cancel := context.WithTimeout(j.t.Context(), 30*time.Second)
			defer cancel()
			if _, err := do(ctx, name); err != nil && !errors.Is(err, api.NotFound) {
				j.t.Errorf("give %s back: %v", name, err)
			}
		})
	}
	for key := range j.asked {
		release(key, j.client.Release)
	}
	for id := range j.ids {
		release(id, j.client.ReleaseID)
	}
	all.Wait()
}

func (j *jobs) note(do func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	do()
}

// leave has nobody give an admission back, if it is the time for that.
func (j *jobs) leave(a *api.Admission) (left bool) {
	j.note(func() {
		if left = j.leaves && len(j.left) < 2*mostLeft; left {
			j.left[a.Key], j.left[a.ID] = true, true
		}
	})
	return left
}

func (j *jobs) leaving(some bool) { j.note(func() { j.leaves = some }) }

// refusals are those for want of room since it was last asked for them.
func (j *jobs) refusals() (all []refusedBy) {
	j.note(func() { all, j.no = j.no, nil })
	return all
}

// judge: nothing runs that nobody was told of, or may be told yet.
func (j *jobs) judge(runs map[string]string) {
	for id, host := range runs {
		j.note(func() {
			if !j.ids[id] {
				j.t.Errorf("%s runs on %s, and nobody was told so", id, host)
			}
		})
	}
}
