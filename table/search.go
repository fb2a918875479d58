package table

import (
	"math/bits"
)

// find goes down the buckets from below the upper bound to the lower one, all groups of one
// side abreast, until a host takes the ask, and returns it and its bucket.
func (t *Table) find(q *query, w who, from, below int32) (found, bucket int32) {
	set := t.kinds.side(w)
	set.both(&q.kinds)
	switch n := set.count(); {
	case n == 1:
		return t.findIn(set.least(), q, from, below)
	case n >= manyGroups:
		l := t.level(w)
		if l.top < from {
			return none, none
		}
		if found := t.guess(q, &set, l); found != none && l.top < below {
			return found, l.top
		}
	}
	f := t.start(q, &set, below)
	for f.top >= max(from, 0) {
		k := t.choose(&f, q)
		g := t.groups[k]
		if found := t.sample(g, g.heaps[f.top], q); found != none {
			return found, f.top
		}
		if t.next[k] = g.bestBucket(t.next[k], q.need[g.mode]); t.next[k] == none {
			set.drop(k)
		}
		f = t.lead(&set)
	}
	return none, none
}

// findIn is find in one group, as most fleets have it.
func (t *Table) findIn(k int32, q *query, from, below int32) (found, bucket int32) {
	g := t.groups[k]
	for b := t.bestBucket(k, q, below); b >= max(from, 0); b = g.bestBucket(b, q.need[g.mode]) {
		if found := t.sample(g, g.heaps[b], q); found != none {
			return found, b
		}
	}
	return none, none
}

// bestBucket is a group's best bucket below a bound with a host that has the memory, or none.
func (t *Table) bestBucket(k int32, q *query, below int32) int32 {
	p, need := &t.peaks[k], q.need[t.kinds.committed.bit(k)]
	switch {
	case p.most < need:
		return none
	case p.bucket < below && p.room >= need:
		return p.bucket
	default:
		return t.groups[k].bestBucket(min(below, int32(t.opts.Buckets)), need)
	}
}

// level is the side with the highest bucket, of those that a search looks at.
func (t *Table) level(w who) *levels {
	theirs, own := &t.levels[side(false)], &t.levels[side(true)]
	if w == others || w == anybody && theirs.top > own.top {
		return theirs
	}
	return own
}

const guesses = 8

// guess tries a few hosts at random, whether they lie in the highest bucket of all and take the
// ask: where that holds for many, as in an idle fleet, no group needs be looked at, however many
// there are. It finds each such host with the same chance, and none is better.
func (t *Table) guess(q *query, set *groupSet, l *levels) int32 {
	if l.top == none || int(l.hosts[l.top])*manyGroups < len(t.spots) {
		return none
	}
	for range guesses {
		i := int32(q.below(len(t.spots)))
		s := &t.spots[i]
		if s.bucket != l.top || !set.has(s.group) || s.room < q.need[t.kinds.committed.bit(s.group)] {
			continue
		}
		if t.takes(t.groups[s.group], i, q) {
			return i
		}
	}
	return none
}

// front is the best bucket that the groups of a search have, and which of them have it.
type front struct {
	top    int32
	groups groupSet
}

func (f *front) meet(k, bucket int32) {
	if bucket > f.top {
		f.top, f.groups = bucket, groupSet{}
	}
	if bucket == f.top {
		f.groups.add(k)
	}
}

// start finds each group's best bucket below a bound with a host that has the memory, and drops
// the groups without one.
func (t *Table) start(q *query, set *groupSet, below int32) front {
	f := front{top: none}
	for w := range set {
		for word := set[w]; word != 0; word &= word - 1 {
			k := int32(w<<6 + bits.TrailingZeros64(word))
			b := t.bestBucket(k, q, below)
			if t.next[k] = b; b == none {
				set.drop(k)
				continue
			}
			f.meet(k, b)
		}
	}
	return f
}

// lead finds the front of the groups anew.
func (t *Table) lead(set *groupSet) front {
	f := front{top: none}
	for w := range set {
		for word := set[w]; word != 0; word &= word - 1 {
			k := int32(w<<6 + bits.TrailingZeros64(word))
			f.meet(k, t.next[k])
		}
	}
	return f
}

// choose returns one of the groups at the front, at random by the hosts that they have there.
func (t *Table) choose(f *front, q *query) int32 {
	hosts, last := 0, none
	for w := range f.groups {
		for word := f.groups[w]; word != 0; word &= word - 1 {
			last = int32(w<<6 + bits.TrailingZeros64(word))
			hosts += t.lying(last, f.top)
		}
	}
	if hosts == t.lying(last, f.top) {
		return last
	}
	n := q.below(hosts)
	for w := range f.groups {
		for word := f.groups[w]; word != 0; word &= word - 1 {
			k := int32(w<<6 + bits.TrailingZeros64(word))
			if n -= t.lying(k, f.top); n < 0 {
				return k
			}
		}
	}
	return last
}

// lying counts a group's hosts in a bucket.
func (t *Table) lying(k, b int32) int {
	if p := &t.peaks[k]; p.bucket == b {
		return int(p.hosts)
	}
	return len(t.groups[k].heaps[b])
}

// sample returns a host of one heap that takes the ask: by a few random probes, else by a walk.
func (t *Table) sample(g *group, heap []entry, q *query) int32 {
	need := q.need[g.mode]
	if len(heap) > arity && max(heap[1].room, heap[2].room, heap[3].room, heap[4].room) < need {
		heap = heap[:1] // the top alone has the memory
	}
	for range min(len(heap)-1, 4) {
		e := heap[q.below(len(heap))]
		if e.room >= need && t.takes(g, e.ref, q) {
			return e.ref
		}
	}
	return t.walk(g, heap, 0, q)
}

// walk tries an entry's children from a random one on, then the entry: a heap has no room below one
// that has too little, so each host that it looks at has the memory.
func (t *Table) walk(g *group, heap []entry, i int, q *query) int32 {
	if i >= len(heap) || heap[i].room < q.need[g.mode] {
		return none
	}
	if first := arity*i + 1; first < len(heap) {
		turn := int(q.next())
		for k := range arity {
			if found := t.walk(g, heap, first+(turn+k)&(arity-1), q); found != none {
				return found
			}
		}
	}
	if t.takes(g, heap[i].ref, q) {
		return heap[i].ref
	}
	return none
}

// takes asks a candidate with enough memory for the rest.
func (t *Table) takes(g *group, i int32, q *query) bool {
	h := &t.hosts[i]
	switch {
	case h.among(q.opts.Exclude):
		return false
	case g.mixed && !carries(t.rests[i].labels, q.ask.Labels):
		return false
	case g.mixed || !q.single:
		if _, lacks := t.lacks(h, q); lacks {
			return false
		}
	}
	return !t.hasShare(i, q)
}
