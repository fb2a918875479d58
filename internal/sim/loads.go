package sim

import (
	"cmp"
	"slices"

	"github.com/plimsoll-project/plimsoll/pool"
)

// loads counts, from the outside, who holds what: the onlooker's own sums.
type loads struct {
	caps caps
	held map[string]map[holder]int64 // pool -> holder -> slots
	busy map[string]int64            // pool -> slots held
	use  map[string]int64            // tenant -> slots held
	seen map[string]pool.Row         // id -> as last seen

	waiting map[string]*pool.Row // id -> who is in any line, as last seen
	between map[string]bool      // ids of those that came out of a line, and are being placed
	freed   map[string]bool      // ids of those that gave a slot back, lately or not
}

// holder is on whose account a slot is held.
type holder struct {
	consumer string
	priority int64
}

func holderOf(r *pool.Row) holder { return holder{r.Consumer, r.Priority} }

func newLoads() loads {
	return loads{
		caps: newCaps(), held: map[string]map[holder]int64{}, busy: map[string]int64{}, use: map[string]int64{},
		seen: map[string]pool.Row{}, waiting: map[string]*pool.Row{}, between: map[string]bool{}, freed: map[string]bool{},
	}
}

func (l *loads) note(r pool.Row) {
	l.forget(r.ID)
	if holds(r.State) {
		l.count(&r, 1)
	}
	if r.State == pool.Waiting {
		l.waiting[r.ID] = &r
	}
	if r.State == pool.Placing && r.Waited {
		l.between[r.ID] = true
	}
	if r.FreedAt != 0 {
		l.freed[r.ID] = true
	}
	l.seen[r.ID] = r
}

func (l *loads) forget(id string) {
	if old, ok := l.seen[id]; ok && holds(old.State) {
		l.count(&old, -1)
	}
	delete(l.seen, id)
	delete(l.waiting, id)
	delete(l.between, id)
	delete(l.freed, id)
}

func (l *loads) count(r *pool.Row, by int64) {
	if l.held[r.Pool] == nil {
		l.held[r.Pool] = map[holder]int64{}
	}
	l.held[r.Pool][holderOf(r)] += by
	l.busy[r.Pool] += by
	l.use[r.Tenant] += by
}

// line is who waits for a pool and still has patience, in the order of their places.
func (l *loads) line(name string, now pool.Time) []*pool.Row {
	out := make([]*pool.Row, 0, len(l.waiting))
	for _, w := range l.waiting {
		if patient(w, name, now) {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b *pool.Row) int { return cmp.Compare(a.Place, b.Place) })
	return out
}

// patient says that a waiter is in a pool's line, and its patience has not ended.
func patient(w *pool.Row, name string, now pool.Time) bool {
	return w.Pool == name && now.Since(w.QueuedAt) < w.MaxQueueAge
}

// inLine counts the places of a pool's line that are taken, by others than this one.
func (l *loads) inLine(r *pool.Row, now pool.Time) (n int64) {
	for id := range l.between {
		if w := l.seen[id]; w.Pool == r.Pool && id != r.ID {
			n++
		}
	}
	for id, w := range l.waiting {
		if id != r.ID && patient(w, r.Pool, now) {
			n++
		}
	}
	return n
}

// freedLately counts the slots of a pool that were given back within the grace of absent waiters.
func (l *loads) freedLately(name string, now pool.Time) (n int64) {
	for id := range l.freed {
		switch w := l.seen[id]; {
		case now.Since(w.FreedAt) >= pool.Grace:
			delete(l.freed, id)
		case w.Pool == name:
			n++
		}
	}
	return n
}
