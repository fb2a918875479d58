package control

import (
	"cmp"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// toldHint is what somebody who took a place in a line was first told here.
type toldHint struct {
	in    time.Duration // its turn
	after time.Duration // it had waited until then
}

// toldHints remembers what waiters were first told, until they are admitted. Of the others, whose
// places ended or who are admitted at another replica, the oldest are forgotten when they are many:
// a waiter is missed in a figure then, and nothing else hangs on it.
type toldHints struct {
	most int // of each of the two

	mu           sync.Mutex          // guards what follows
	fresh, older map[string]toldHint // by id of the admission
}

// mostTold is a line's worth: the memory of both is some megabytes.
const mostTold = 32 << 10

func (t *toldHints) note(id string, h toldHint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, told := t.find(id); told {
		return
	}
	if t.fresh == nil || len(t.fresh) >= t.most {
		t.fresh, t.older = map[string]toldHint{}, t.fresh
	}
	t.fresh[id] = h
}

// find needs t.mu.
func (t *toldHints) find(id string) (toldHint, bool) {
	if h, ok := t.fresh[id]; ok {
		return h, true
	}
	h, ok := t.older[id]
	return h, ok
}

// take returns what a waiter was told, and forgets it.
func (t *toldHints) take(id string) (toldHint, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.find(id)
	delete(t.fresh, id)
	delete(t.older, id)
	return h, ok
}

// judgeHint compares what a caller was first told with when it was admitted.
func (c call) judgeHint(r pool.Row) {
	hint, took := c.firstHint(r)
	if hint <= 0 {
		return
	}
	off, turn := took-hint, "later"
	if off < 0 {
		off, turn = -off, "sooner"
	}
	c.gateway.Metrics.HintErrors.WithLabelValues(r.Pool, string(cmp.Or(r.Mode, pool.Refuse)), turn).Observe(float64(off) / float64(hint))
}

// firstHint is what a caller was first told, and what it then took: by the receipt that it hands back,
// of whichever replica, or by its place. It is zero for who was told nothing.
func (c call) firstHint(r pool.Row) (hint, took time.Duration) {
	told, here := c.gateway.told.take(r.ID)
	if held := c.held(r.Key); !held.First.IsZero() {
		return held.Hint, max(r.AdmittedAt.Wall().Sub(held.First), 0)
	}
	if !here || !r.Waited {
		return 0, 0
	}
	return told.in, max(r.AdmittedAt.Since(r.QueuedAt)-told.after, 0)
}
