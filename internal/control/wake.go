package control

import (
	"cmp"
	"slices"
	"sync"

	"github.com/plimsoll-project/plimsoll/pool"
)

// waker gives the callers whose long polls are held here their turn when something may
// have become free. Who is next is the store's business: whoever has the turn claims, and
// then passes it on to the next of its pool, in the order of the places. It stops at the
// first who lacks a slot while none is free, since nobody behind that one could have one
// either, and goes by those of a kind that just found no host. So what was freed costs as many claims as it
// serves, and one more; not one for each poll that is held.
//
// A turn is a hint that saves time. Where it is lost, each waiter tries every PresentEvery.
type waker struct {
	mu    sync.Mutex           // guards what follows and the lacks of every waiter
	lines map[string][]*waiter // pool -> held long polls, by place
}

// waiter is one long poll that is held.
type waiter struct {
	id    string // of its admission
	pool  string
	kind  string // see pool.Contents.Kind
	place int64
	lacks string    // what its last attempt lacked, such as pool.ForSlot; "" before that
	turn  chan turn // holds the one that it has not taken up yet
}

// turn is the occasion to try again.
type turn struct {
	slot  bool     // a slot or quota came free, but no room: of no use to who lacks a host
	spent []string // kinds that found no host since it set out
}

func (t turn) suits(w *waiter) bool {
	return !slices.Contains(t.spent, w.kind) && (!t.slot || w.lacks != pool.ForHost)
}

// join adds the long poll on an admission to its pool's line.
func (k *waker) join(r pool.Row) *waiter {
	w := &waiter{id: r.ID, pool: r.Pool, kind: r.Kind(), place: r.Place, turn: make(chan turn, 1)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lines == nil {
		k.lines = map[string][]*waiter{}
	}
	line := k.lines[w.pool]
	at, _ := slices.BinarySearchFunc(line, w.place, func(o *waiter, place int64) int { return cmp.Compare(o.place, place) })
	k.lines[w.pool] = slices.Insert(line, at, w)
	return w
}

// leave takes a waiter out. Whether it was served, or stands in nobody's way any more: the
// next one may have its turn.
func (k *waker) leave(w *waiter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	line := k.lines[w.pool]
	at := slices.Index(line, w)
	line = slices.Delete(line, at, at+1)
	k.lines[w.pool] = line
	if len(line) == 0 {
		delete(k.lines, w.pool)
	}
	give(line[at:], turn{})
}

// failed notes what a waiter still lacks, and passes on the turn that it had, if any.
// With shares a slot may be free that this one cannot have, and the next can.
func (k *waker) failed(w *waiter, lacks string, anyFree bool, had *turn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w.lacks = lacks
	if had == nil || (lacks == pool.ForSlot && !anyFree) {
		return
	}
	if lacks == pool.ForHost {
		had.spent = append(slices.Clone(had.spent), w.kind)
	}
	line := k.lines[w.pool]
	give(line[slices.Index(line, w)+1:], *had)
}

// wake sets out a turn in every pool: quotas span them, and so does room.
func (k *waker) wake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, line := range k.lines {
		give(line, turn{})
	}
}

// nudge has the long polls on one admission look again: it was released, and whoever holds
// on for it should hear.
func (k *waker) nudge(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, line := range k.lines {
		for _, w := range line {
			if w.id == id {
				hand(w, turn{})
			}
		}
	}
}

// slotBack sets out a turn for a slot that an admission gave back because it found no
// host. It goes to others who lack just a slot: were it to wake those who lack a host,
// waiters would wake each other, or themselves, for as long as the hosts are full.
func (k *waker) slotBack(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, line := range k.lines {
		give(slices.DeleteFunc(slices.Clone(line), func(w *waiter) bool { return w.id == id }), turn{slot: true})
	}
}

// give hands a turn to the first waiter whom it suits.
func give(line []*waiter, t turn) {
	if at := slices.IndexFunc(line, t.suits); at >= 0 {
		hand(line[at], t)
	}
}

// hand gives a waiter the turn. Two turns that meet go on as one, which leaves out nobody
// that either would not.
func hand(w *waiter, t turn) {
	select {
	case other := <-w.turn:
		t = turn{slot: t.slot && other.slot}
	default:
	}
	w.turn <- t // it has room: nobody else sends, under the lock
}
