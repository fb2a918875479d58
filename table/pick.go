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

	kinds   groupSet // groups that may take it
	single  bool     // of no dimension it takes more than one
	lenient bool     // hosts in quarantine may be asked, too
	cohort  Cohort   // while its rule holds
	looks   int      // hosts that may still be passed over for it
}

// prepare fills in what the ask is to a table. (It is apart from the literal because a large
// struct that a function returns is copied.)
func (t *Table) prepare(q *query) {
	q.rand, q.kinds, q.single = q.opts.Rand, t.kinds.taking(q.ask), single(q.ask)
	q.need[gate.WorkingSet], q.need[gate.Committed] = needMiB(q.ask, gate.WorkingSet), needMiB(q.ask, gate.Committed)
}

// single says whether an ask takes one of each dimension that it names: then who has the memory,
// in a group with something left of each, takes it. A host without a slot has no memory there.
func single(a *gate.Ask) bool {
	for i := range a.Dims {
		if d := &a.Dims[i]; d.N != 1 || d.Name == gate.SandboxDim {
			return false
		}
	}
	return true
}

// needMiB is gate.Need in whole MiB. What no host can have, and a negative need, fit nowhere.
func needMiB(a *gate.Ask, m gate.Mode) int32 {
	n := a.ReserveOn(m).CeilMiB()
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
	q := query{ask: a, opts: o}
	t.prepare(&q)
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
	if q.opts.Prefer != "" {
		if i, ok := t.byID[q.opts.Prefer]; ok {
			if why, _ := t.judge(i, q); why == Candidate && !t.hasShare(i, q) {
				return i
			}
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
		if !t.hosts[i].live() || (best != none && t.hosts[i].room() <= t.hosts[best].room()) {
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

// judge says why a host cannot take the ask, Candidate if it can: the first reason in the order
// of the list.
func (t *Table) judge(i int32, q *query) (Reason, string) {
	h := &t.hosts[i]
	switch {
	case h.standing != Candidate && !(h.standing == Quarantined && t.askable(i, q)):
		return h.standing, ""
	case h.among(q.opts.Exclude):
		return Excluded, ""
	case !carries(t.rests[i].labels, q.ask.Labels):
		return Labels, ""
	case h.roomFor(q) < q.need[h.mode]:
		return NoRoom, ""
	}
	if name, lacks := t.lacks(h, q); lacks {
		return Dimension, name
	}
	return Candidate, ""
}

// lacks names the first dimension of which a host has too little left for the ask.
func (t *Table) lacks(h *host, q *query) (string, bool) {
	for i := range q.ask.Dims {
		if want := &q.ask.Dims[i]; !h.has(want, q) {
			return want.Name, true
		}
	}
	if t.slotted && !h.hasSlot(q) {
		return gate.SandboxDim, true
	}
	return "", false
}

// among says whether a host's id is one of these.
func (h *host) among(ids []string) bool {
	for _, id := range ids {
		if printOf(id) == h.print && id == h.id {
			return true
		}
	}
	return false
}

// printOf is what an id ends in.
func printOf(id string) (print uint32) {
	for i := max(len(id)-4, 0); i < len(id); i++ {
		print = print<<8 | uint32(id[i])
	}
	return print
}

// hasSlot says whether a host that declares sandbox slots has those that the ask takes.
func (h *host) hasSlot(q *query) bool {
	dims := h.dims()
	for i := range dims {
		if d := &dims[i]; d.name == gate.SandboxDim {
			return d.left(q) >= takes(q.ask.Dims, gate.SandboxDim)
		}
	}
	return true
}

// roomFor is the room for one ask: net of this replica's unanswered reserves, or gross.
func (h *host) roomFor(q *query) int32 {
	if q.opts.Gross {
		return clampMiB(int64(h.admittable))
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
func (h *host) has(want *gate.Dim, q *query) bool {
	dims := h.dims()
	for i := range dims {
		if d := &dims[i]; d.name == want.Name {
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
