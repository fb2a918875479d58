package table

import (
	"math/bits"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// PickOptions narrow one pick. The zero value narrows nothing.
type PickOptions struct {
	Exclude []string // ids of hosts that refused this ask already; a handful
	Require string   // only this host
	Prefer  string   // this host if it fits
	Rand    uint64   // picks among the hosts of the best bucket
	// Gross leaves this replica's own unanswered reserves out of account. It is for the last
	// pick before a refusal: a reserve that was lost on the way fills nothing, and the host
	// that is asked has the last word. It reads every host.
	Gross bool
	// HeardSince, with Gross, is when the sweep before that pick began: a quarantined host that
	// spoke since may be asked, if no other can.
	HeardSince time.Duration
	Cohort     Cohort // of the ask; the same is given to Charge
}

// Choice is the host to ask, and what the ask needs of it.
type Choice struct {
	Host string
	Ref  Ref
	Need gate.Bytes
}

// query is one ask on its way through the table.
type query struct {
	ask  *gate.Ask
	opts *PickOptions
	need [2]int32 // by mode, whole MiB
	rand uint64

	marks   uint64 // of the labels and dimensions that it wants
	lenient bool   // hosts in quarantine may be asked, too
	cohort  Cohort // while its rule holds
	looks   int    // hosts that may still be passed over for it
}

func newQuery(a *gate.Ask, o *PickOptions) query {
	q := query{ask: a, opts: o, rand: o.Rand, marks: marksOf(a.Labels)}
	for _, d := range a.Dims {
		if d.N > 0 && d.Name != gate.SandboxDim {
			q.marks |= markOf(d.Name)
		}
	}
	q.need[gate.Committed] = needMiB(a, gate.Committed)
	q.need[gate.WorkingSet] = q.need[gate.Committed]
	if !a.Stateful {
		q.need[gate.WorkingSet] = needMiB(a, gate.WorkingSet)
	}
	return q
}

// needMiB is gate.Need in whole MiB. What no host can have, and a negative need, fit nowhere.
func needMiB(a *gate.Ask, m gate.Mode) int32 {
	n := gate.Need(*a, m).CeilMiB()
	if a.Memory < 0 || n < 0 || n > mostMiB {
		return mostMiB + 1
	}
	return int32(n)
}

// next steps the pick's own random sequence (splitmix64).
func (q *query) next() uint64 {
	q.rand += 0x9e3779b97f4a7c15
	return mix(q.rand)
}

func (q *query) below(n int) int {
	hi, _ := bits.Mul64(q.next(), uint64(n))
	return int(hi)
}

// Pick returns the host to ask for a reservation. It allocates nothing. When it answers false,
// Explain says why.
func (t *Table) Pick(now time.Duration, a *gate.Ask, o *PickOptions) (Choice, bool) {
	t.advance(now)
	q := newQuery(a, o)
	if o.Require != "" {
		q.lenient = o.Gross
		return t.pickNamed(o.Require, &q)
	}
	i := none
	if o.Gross {
		i = t.lastResort(&q)
	} else {
		q.cohort, q.looks = t.crowded(o.Cohort), mostLooks
		if i = t.best(&q); q.cohort != 0 && (i == none || q.looks <= 0) {
			q.cohort = 0 // the rule yields
			i = t.best(&q)
		}
	}
	if i == none {
		return Choice{}, false
	}
	return t.choice(i, &q), true
}

// best returns the host that is preferred, if it takes the ask, or else the best that does.
func (t *Table) best(q *query) int32 {
	if i, ok := t.byID[q.opts.Prefer]; ok && q.opts.Prefer != "" {
		if why, _ := t.judge(i, q); why == Candidate && !t.hasShare(i, q) {
			return i
		}
	}
	return t.search(q)
}

// lastResort is the pick before a refusal.
func (t *Table) lastResort(q *query) int32 {
	if i, ok := t.byID[q.opts.Prefer]; ok && q.opts.Prefer != "" {
		if why, _ := t.judge(i, q); why == Candidate {
			return i
		}
	}
	i := t.searchGross(q)
	if i == none && len(t.records) > 0 {
		q.lenient = true
		i = t.searchGross(q)
	}
	return i
}

// searchGross returns the host with the most room among those that may have some.
func (t *Table) searchGross(q *query) int32 {
	best := none
	for i := range t.hosts {
		if !t.hosts[i].live || (best != none && t.hosts[i].room() <= t.hosts[best].room()) {
			continue
		}
		if why, _ := t.judge(int32(i), q); why == Candidate {
			best = int32(i)
		}
	}
	return best
}

func (t *Table) pickNamed(id string, q *query) (Choice, bool) {
	i, ok := t.byID[id]
	if !ok {
		return Choice{}, false
	}
	if why, _ := t.judge(i, q); why != Candidate {
		return Choice{}, false
	}
	return t.choice(i, q), true
}

func (t *Table) choice(i int32, q *query) Choice {
	h := &t.hosts[i]
	return Choice{Host: h.id, Ref: Ref{index: i, gen: h.gen}, Need: gate.FromMiB(int64(q.need[h.mode]))}
}

// find goes down the buckets from below the upper bound to the lower one, all groups of one
// side abreast, until a host takes the ask, and returns it and its bucket.
func (t *Table) find(q *query, side who, from, below int32) (found, bucket int32) {
	var at [maxGroups]int32 // each group's best bucket that may still have a host
	for i, g := range t.groups {
		at[i] = none
		if side.has(g.own) && g.mayTake(q) {
			at[i] = g.bestBucket(min(below, g.buckets()), q.need[g.mode])
		}
	}
	for {
		i := t.lead(at[:len(t.groups)], q)
		if i < 0 || at[i] < from {
			return none, none
		}
		g := t.groups[i]
		if found := t.sample(g, g.heaps[at[i]], q); found != none {
			return found, at[i]
		}
		at[i] = g.bestBucket(at[i], q.need[g.mode])
	}
}

// lead returns the group with the highest bucket; among equals, at random by their hosts.
func (t *Table) lead(at []int32, q *query) int {
	top, lead, hosts, equals := none, -1, 0, 0
	for i, b := range at {
		if b == none || b < top {
			continue
		}
		if b > top {
			top, lead, hosts, equals = b, i, 0, 0
		}
		equals++
		hosts += len(t.groups[i].heaps[b])
	}
	if equals < 2 {
		return lead
	}
	n := q.below(hosts)
	for i, b := range at {
		if b == top {
			if n -= len(t.groups[i].heaps[b]); n < 0 {
				return i
			}
		}
	}
	return lead
}

// sample returns a host of one heap that takes the ask: by a few random probes, else by a walk.
func (t *Table) sample(g *group, heap []entry, q *query) int32 {
	need := q.need[g.mode]
	for range min(len(heap)-1, 4) {
		e := heap[q.below(len(heap))]
		if e.room >= need && t.takes(g, e.ref, q) {
			return e.ref
		}
	}
	return t.walk(g, heap, 0, q)
}

// walk tries an entry's children in random order, then the entry: a heap has no room below one
// that has too little, so each host that it looks at has the memory.
func (t *Table) walk(g *group, heap []entry, i int, q *query) int32 {
	if i >= len(heap) || heap[i].room < q.need[g.mode] {
		return none
	}
	side := int(q.next() & 1)
	for _, child := range [2]int{2*i + 1 + side, 2*i + 2 - side} {
		if found := t.walk(g, heap, child, q); found != none {
			return found
		}
	}
	if t.takes(g, heap[i].ref, q) {
		return heap[i].ref
	}
	return none
}

// takes asks a candidate with enough memory for the rest.
func (t *Table) takes(g *group, i int32, q *query) bool {
	if len(q.opts.Exclude) > 0 || len(q.ask.Dims) > 0 || g.mixed || t.slotted {
		if why, _ := t.judge(i, q); why != Candidate {
			return false
		}
	}
	return !t.hasShare(i, q)
}

// judge says why a host cannot take the ask, Candidate if it can: the first reason in the order
// of the list.
func (t *Table) judge(i int32, q *query) (Reason, string) {
	h := &t.hosts[i]
	switch {
	case h.standing != Candidate && !(h.standing == Quarantined && t.askable(i, q)):
		return h.standing, ""
	case len(q.opts.Exclude) > 0 && slices.Contains(q.opts.Exclude, h.id):
		return Excluded, ""
	case !carries(h.labels, q.ask.Labels):
		return Labels, ""
	case h.roomFor(q) < q.need[h.mode]:
		return NoRoom, ""
	}
	for _, want := range q.ask.Dims {
		if !h.has(want, q) {
			return Dimension, want.Name
		}
	}
	if t.slotted && !h.hasSlot(q) {
		return Dimension, gate.SandboxDim
	}
	return Candidate, ""
}

// hasSlot says whether a host that declares sandbox slots has those that the ask takes.
func (h *host) hasSlot(q *query) bool {
	for i := range h.dims {
		if d := &h.dims[i]; d.name == gate.SandboxDim {
			return d.left(q) >= q.ask.Takes(gate.SandboxDim)
		}
	}
	return true
}

// roomFor is the room for one ask: net of this replica's unanswered reserves, or gross.
func (h *host) roomFor(q *query) int32 {
	if q.opts.Gross {
		return clampMiB(h.admittable.FloorMiB())
	}
	return h.room()
}

func (d *dim) left(q *query) int64 {
	if q.opts.Gross {
		return d.free
	}
	return d.free - d.pending
}

// has says whether a host has an amount of a dimension left. One that it does not declare it
// does not have.
func (h *host) has(want gate.Dim, q *query) bool {
	for i := range h.dims {
		if d := &h.dims[i]; d.name == want.Name {
			return want.N >= 0 && d.left(q) >= want.N
		}
	}
	return want.N == 0
}

// carries says whether every label wanted is among those a host has.
func carries(has, wanted []gate.Label) bool {
	for _, w := range wanted {
		if !slices.Contains(has, w) {
			return false
		}
	}
	return true
}
