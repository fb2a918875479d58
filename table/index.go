package table

import (
	"math"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
)

const (
	maxGroups = 256 // kinds of hosts with an index of their own; further ones share a mixed one
	noRoom    = math.MinInt32
	mostMiB   = math.MaxInt32 - 1
)

// spot is where a host lies in the index.
type spot struct {
	group  int32 // none: in no group yet
	bucket int32 // none: not a candidate
	pos    int32 // in the bucket's heap
	room   int32 // as its entry there has it, for a guess
}

// entry is a host in a bucket's heap, with its room beside it so that a heap needs no host.
type entry struct{ room, ref int32 } // whole MiB

// group indexes the candidates of one mode, one side of the own share, one set of labels and
// one set of dimensions that they have something left of (or of many sets of both, if mixed).
type group struct {
	mode   gate.Mode
	own    bool
	labels []gate.Label
	stock  []string // dimensions with something left, in the hosts' order
	mixed  bool

	heaps [][]entry // max-heaps by room, one a bucket
	best  []int32   // best[buckets+b] is heap b's most room, best[i] the higher of best[2i], best[2i+1]
}

func newGroup(mode gate.Mode, own bool, labels []gate.Label, mixed bool, buckets int) *group {
	g := &group{mode: mode, own: own, labels: labels, mixed: mixed, heaps: make([][]entry, buckets), best: make([]int32, 2*buckets)}
	for i := range g.best {
		g.best[i] = noRoom
	}
	return g
}

// join puts a host that is in no heap into the group of its mode, labels and share.
func (t *Table) join(i int32, labels []gate.Label) {
	s, l := &t.spots[i], &t.rests[i]
	if s.group != none && t.holds(t.groups[s.group], i) && slices.Equal(l.labels, labels) {
		return
	}
	l.labels = sortedLabels(labels)
	t.enter(i)
}

// enter puts a host that is in no heap into the group that holds it.
func (t *Table) enter(i int32) {
	s := &t.spots[i]
	s.group = t.groupFor(i)
	if g := t.groups[s.group]; !g.mixed {
		t.rests[i].labels = g.labels
	}
}

// rejoin is join for a host whose side has changed; one that was never heard is in no group.
func (t *Table) rejoin(i int32) {
	if t.spots[i].group != none {
		t.join(i, t.rests[i].labels)
		t.reindex(i)
	}
}

// holds says whether a group is of a host's kind, but for labels.
func (t *Table) holds(g *group, i int32) bool {
	h := &t.hosts[i]
	return g.mode == h.mode && g.own == t.rests[i].own && (g.mixed || g.stocks(h))
}

// stocks says whether a host has something left of just the group's dimensions.
func (g *group) stocks(h *host) bool {
	n, dims := 0, h.dims()
	for i := range dims {
		if !dims[i].stocked() {
			continue
		}
		if n >= len(g.stock) || g.stock[n] != dims[i].name {
			return false
		}
		n++
	}
	return n == len(g.stock)
}

// stocked says whether something is left. Slots are no stock: who has none has no room.
func (d *dim) stocked() bool { return d.name != gate.SandboxDim && d.free > d.pending }

func (h *host) stock() (names []string) {
	dims := h.dims()
	for i := range dims {
		if dims[i].stocked() {
			names = append(names, dims[i].name)
		}
	}
	return names
}

func (t *Table) groupFor(h int32) int32 {
	mixed, l := none, &t.rests[h]
	for i, g := range t.groups {
		switch {
		case !t.holds(g, h):
		case g.mixed:
			mixed = int32(i)
		case slices.Equal(g.labels, l.labels):
			return int32(i)
		}
	}
	full := len(t.groups) >= t.opts.groups-4 // leaves one mixed group a mode and side
	if full && mixed != none {
		return mixed
	}
	g := newGroup(t.hosts[h].mode, l.own, l.labels, full, t.opts.Buckets)
	if !full {
		g.stock = t.hosts[h].stock()
	}
	at := int32(len(t.groups))
	t.groups = append(t.groups, g)
	t.peaks = append(t.peaks, peak{bucket: none, room: noRoom, most: noRoom})
	if t.kinds.add(at, g); len(t.groups) == manyGroups {
		t.levels = t.countLevels()
	}
	return at
}

// room is what this replica believes a host can still take, in whole MiB.
func (h *host) room() int32 { return clampMiB(int64(h.admittable) - h.pending) }

func clampMiB(n int64) int32 { return int32(min(max(n, -1), mostMiB)) }

// indexed is the room as the index has it: a host without a slot has none for anybody, since
// every ask takes one.
func (h *host) indexed() int32 {
	dims := h.dims()
	for i := range dims {
		if d := &dims[i]; d.name == gate.SandboxDim && d.free <= d.pending {
			return -1
		}
	}
	return h.room()
}

// bucketOf is the bucket of a host's score, the best being the highest: packing turns it round.
//
// To spread, this replica's unanswered reserves count as often as there are replicas up: what
// others have under way is not seen yet, and a burst that comes to one comes to all. What one
// replica so takes for more than it is, another takes for less by as much, and their errors
// cancel out; a score below 0 is therefore no rare thing in a burst, and has buckets of its own.
func (t *Table) bucketOf(h *host) int32 {
	n := int64(1)
	if t.opts.Strategy == Spread {
		n = max(n, int64(len(t.replicas)))
	}
	s := gate.Score(t.opts.Weights, int64(h.cpuFree)-n*h.pendingCPU, gate.FromMiB(int64(h.free)-n*h.pending), h.stream)
	last := int64(t.opts.Buckets - 1)
	b := min(max(t.step(s), 0), last)
	if t.opts.Strategy == Pack {
		b = last - b
	}
	return int32(b)
}

// step is the bucket of a score, before it is bounded. A quarter of the buckets is for scores
// below 0, each of these four times as wide.
func (t *Table) step(s int64) int64 {
	zero, width := int64(t.opts.Buckets/4), t.opts.BucketWidth
	if s >= 0 {
		return zero + s/width
	}
	return zero - 1 - (-1-s)/(4*width)
}

// reindex puts a candidate where its room and score say, and takes anybody else out.
func (t *Table) reindex(i int32) {
	h, s := &t.hosts[i], &t.spots[i]
	if h.standing != Candidate {
		t.unindex(i)
		return
	}
	if g := t.groups[s.group]; !g.mixed && !g.stocks(h) {
		t.unindex(i)
		t.enter(i)
	}
	was, now := *s, *s
	now.bucket, now.room = t.bucketOf(h), h.indexed()
	switch {
	case was.bucket != now.bucket:
		t.lay(i, now)
		t.lift(was)
	case was.room != now.room:
		heap := t.groups[s.group].heaps[s.bucket]
		s.room, heap[s.pos].room = now.room, now.room
		t.fix(heap, s.pos, was.room)
		t.refresh(s.group, s.bucket)
	}
}

func (s *spot) indexed() bool { return s.bucket != none }

// lay puts a host into the heap of a spot. Whoever moves is laid there before he is lifted here:
// then the trees change no further up than both places have in common.
func (t *Table) lay(i int32, at spot) {
	g := t.groups[at.group]
	heap := append(g.heaps[at.bucket], entry{room: at.room, ref: i})
	t.spots[i] = at
	t.up(heap, int32(len(heap)-1))
	g.heaps[at.bucket] = heap
	if len(t.groups) >= manyGroups {
		t.levels[side(g.own)].enter(at.bucket)
	}
	t.refresh(at.group, at.bucket)
}

// lift takes what lies in a spot out of its heap, if it is in one.
func (t *Table) lift(at spot) {
	if !at.indexed() {
		return
	}
	g := t.groups[at.group]
	heap := g.heaps[at.bucket]
	last := int32(len(heap) - 1)
	moved := heap[last]
	if heap = heap[:last]; at.pos != last {
		heap[at.pos] = moved
		t.fix(heap, at.pos, at.room)
	}
	g.heaps[at.bucket] = shrink(heap)
	if len(t.groups) >= manyGroups {
		t.levels[side(g.own)].leave(at.bucket)
	}
	t.refresh(at.group, at.bucket)
}

// unindex takes a host out of its heap, if it is in one.
func (t *Table) unindex(i int32) {
	t.lift(t.spots[i])
	t.spots[i].bucket = none
}

// shrink gives memory back, so that a fleet that drifts through the buckets leaves none behind.
func shrink(heap []entry) []entry {
	if cap(heap) >= 256 && len(heap) < cap(heap)/4 {
		return append(make([]entry, 0, cap(heap)/2), heap...)
	}
	return heap
}

// refresh brings a group's tree and peak up to date with one heap.
func (t *Table) refresh(k, b int32) {
	g, p := t.groups[k], &t.peaks[k]
	most, hosts := int32(noRoom), int32(len(g.heaps[b]))
	if hosts > 0 {
		most = g.heaps[b][0].room
	}
	g.climb(b, most)
	p.most = g.best[1]
	switch {
	case hosts > 0 && b >= p.bucket:
		p.bucket, p.room, p.hosts = b, most, hosts
	case b == p.bucket: // it was emptied
		p.bucket, p.room, p.hosts = none, noRoom, 0
		if p.most != noRoom {
			p.bucket = g.descend(1, noRoom+1)
			p.room, p.hosts = g.best[g.buckets()+p.bucket], int32(len(g.heaps[p.bucket]))
		}
	}
}

func (g *group) climb(b, most int32) {
	for i := g.buckets() + b; i > 0 && g.best[i] != most; i >>= 1 {
		g.best[i] = most
		most = max(most, g.best[i^1])
	}
}

func (g *group) buckets() int32 { return int32(len(g.heaps)) }

// bestBucket is the highest bucket below a bound with a host of that room, or none.
func (g *group) bestBucket(below, need int32) int32 {
	i, buckets := int32(1), g.buckets()
	if below < buckets {
		i = g.leftOf(buckets+below, need)
	} else if g.best[1] < need {
		i = 0
	}
	if i == 0 {
		return none
	}
	return g.descend(i, need)
}

// descend goes from a node with room to its highest bucket that has it. (Its branches are worth
// having: without them each step waits for the one before.)
func (g *group) descend(i, need int32) int32 {
	buckets := g.buckets()
	for i < buckets {
		if i = 2*i + 1; g.best[i] < need {
			i--
		}
	}
	return i - buckets
}

// leftOf climbs from a leaf to the nearest tree on its left with room, 0 if there is none.
func (g *group) leftOf(i, need int32) int32 {
	for ; i > 1; i >>= 1 {
		if i&1 == 1 && g.best[i-1] >= need {
			return i - 1
		}
	}
	return 0
}

// arity is how many children an entry of a heap has: four lie in a line of the processor's cache,
// and a host that comes to the top passes half as many others as with two.
const arity = 4

// fix restores a heap around one entry, of which the room there was another.
func (t *Table) fix(heap []entry, pos, was int32) {
	if heap[pos].room > was {
		t.up(heap, pos)
	} else {
		t.down(heap, pos)
	}
}

func (t *Table) up(heap []entry, pos int32) {
	e := heap[pos]
	for pos > 0 {
		parent := (pos - 1) / arity
		if heap[parent].room >= e.room {
			break
		}
		heap[pos] = heap[parent]
		t.spots[heap[pos].ref].pos = pos
		pos = parent
	}
	heap[pos] = e
	t.spots[e.ref].pos = pos
}

func (t *Table) down(heap []entry, pos int32) {
	e, n := heap[pos], int32(len(heap))
	for {
		child := arity*pos + 1
		if child >= n {
			break
		}
		most := heap[child].room
		for k, end := child+1, min(child+arity, n); k < end; k++ {
			if room := heap[k].room; room > most {
				child, most = k, room
			}
		}
		if most <= e.room {
			break
		}
		heap[pos] = heap[child]
		t.spots[heap[pos].ref].pos = pos
		pos = child
	}
	heap[pos] = e
	t.spots[e.ref].pos = pos
}
