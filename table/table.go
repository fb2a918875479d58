// Package table is a replica's view of the hosts, and the pick: which host should be asked to
// reserve for an ask, by arithmetic over the newest verdicts heard.
//
// It decides which hosts are candidates and which of them is best. It promises nothing: the
// agent that is asked has the last word. It does not compute what a host may promise
// (admittable is the agent's own number), knows no pool, no quota and no ticket.
//
//	who   = heard within 30 s, its intake open, in no quarantine
//	fits  = ⌊admittable − Σ this replica's unanswered reserves⌋ ≥ need, every hard dimension
//	        likewise, labels match
//	score = 0.6 × free cores + 0.3 × free GiB + 5 if stream-restore, both net of the same
//	pick  = the best bucket of scores of this replica's own share of the hosts, unless another's
//	        host is better by more than a bucket and the ask; then the best bucket of all. To
//	        spread, unanswered reserves count once for each replica that is up. Hosts with
//	        their share of the ask's cohort come only when no other fits
//
// Worked: the essay's host with 11.8 free cores and 28,588 MiB free scores 7.08 + 8.37 + 5 =
// 20.45, 68 buckets of width 0.3 above 0. Its admittable of 25,600 MiB takes 25 stateless sandboxes
// of 4 GiB, charged 1,024 each; the 26th is refused. It takes 6 stateful ones, charged in full.
//
// The index: hosts of one mode, share, set of labels and set of dimensions that they have
// something left of are a group; a group keeps one max-heap of rooms for each bucket of scores,
// and a tree of the heaps' maxima. Which groups may take an ask is the intersection of bit sets,
// one for each label and dimension. The best bucket with room is found in log₂(buckets) steps, also
// on a full fleet; a host in it by a few random probes, else by a walk from the heap's top. Of many
// groups, first a few hosts of the highest bucket of all are guessed: one that takes the ask is as
// good as any. A verdict, charge or release moves one host.
//
// The bound: a pick is at most three times eight guesses and the descents of the trees of as many
// groups as match, 256 at most, of most of which 16 bytes are read; and a walk past the hosts that
// have the memory and cannot take the ask. These are: those excluded, a handful; those with their
// share of the cohort, 512 at most; those with less of a dimension than an ask for two or more of
// it, in its groups alone (one of it is never in the way); and, with more kinds of hosts than
// groups, those of the mixed groups whose labels or dimensions do not match. A host without a
// sandbox slot is in nobody's way.
//
// The quantities are whole MiB: a host's room is rounded down and a need up, and ⌊x⌋ ≥ ⌈y⌉ says
// x ≥ y, so that rounding never offers what does not fit; what it withholds is less than the
// host's last MiB.
//
// A Table has one owner: not safe for concurrent use. Time is the owner's monotonic clock.
package table

import (
	"math/bits"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Strategy says which of the hosts that fit is best.
type Strategy uint8

const (
	// Spread prefers the emptiest host: right where every create runs the same anywhere, since a
	// burst then meets the most headroom and a dead host takes the fewest sandboxes along.
	Spread Strategy = iota
	// Pack prefers the fullest host that fits: right where empty hosts are given back, or kept
	// for large asks.
	Pack
)

// Options are a table's settings; the zero value takes every default.
type Options struct {
	Silent      time.Duration // a host not heard for so long is no candidate; 30 s
	Weights     gate.Weights  // of the score; the essay's
	BucketWidth int64         // of the score, in thousandths; 300: one GiB, or half a core
	Buckets     int           // of scores, a power of two; 4,096, a quarter of them below 0; the last holds whatever scores higher
	Strategy    Strategy

	groups int // fewer than maxGroups, for tests
}

func (o Options) withDefaults() Options {
	if o.Silent <= 0 {
		o.Silent = 30 * time.Second
	}
	if o.Weights == (gate.Weights{}) {
		o.Weights = gate.DefaultWeights()
	}
	if o.BucketWidth <= 0 {
		o.BucketWidth = 300
	}
	if o.groups <= 0 {
		o.groups = maxGroups
	}
	if o.Buckets <= 0 {
		o.Buckets = 4096
	}
	o.Buckets = 1 << bits.Len(uint(min(o.Buckets, 1<<20)-1))
	return o
}

// none is the ref of no host.
const none int32 = -1

// Table is the set of registered hosts with what was last heard of each.
type Table struct {
	opts  Options
	now   time.Duration    // the highest instant seen; never goes back
	byID  map[string]int32 // host id -> its place in hosts
	hosts []host
	rests []rest  // of the same index as hosts: what no pick and no charge reads of each
	spots []spot  // of the same index as hosts: where each lies in the index
	spare []int32 // refs of forgotten hosts, to be used again

	groups  []*group
	peaks   []peak           // of the same index as groups
	kinds   kinds            // which groups may take an ask
	levels  [2]levels        // of the others' hosts, and of the own; with many groups alone
	next    [maxGroups]int32 // the bucket that the search under way looks at next in each group
	oldest  int32            // hosts heard, by the time of their word: the next to fall silent
	newest  int32
	counts  [reasons]int // registered hosts by standing; counts[Candidate] are indexed
	charges []charge
	idle    []int32 // charges to be used again
	stats   Stats

	self     string   // this replica, "" without a share
	replicas []string // that are up, sorted; nil: no share, every host is own
	uneven   bool     // hosts came or went since the shares were made

	cohorts cohorts
	records map[int32]*record // host's place -> what is held against it, where anything is
	waiting []int32           // hosts whose quarantine ends by itself
	wake    time.Duration     // when the first of them does, unless it was lifted

	names   map[string]string // dimension -> the same, one string for all hosts
	slotted bool              // some host has declared sandbox slots, of which every ask takes one
}

// Stats count what happened to the reports.
type Stats struct {
	Taken   uint64 // they became the host's newest word
	Ignored uint64 // an equal or higher stamp had been seen
	Invalid uint64 // they could not be true
}

// host is what a pick and a charge read and write of a registered host. Its amounts are as its
// agent said, not net of charges. It is two lines of the processor's cache, of one page, and of
// a host without dimensions the first alone is read: a fleet's hosts are not in the cache, and
// the time of a pick is that of reading them.
type host struct {
	admittable, free int32  // whole MiB, rounded down
	cpuFree          int32  // milli
	gen              uint32 // rises when the place is used for another host
	print            uint32 // of the id, so that it need not be read to see that it is another
	standing         Reason
	mode             gate.Mode
	stream           bool
	declared         uint8 // dimensions, where they are few
	pending          int64 // Σ needs of this replica's unanswered reserves, MiB
	pendingCPU       int64
	id               string // "": the place is free
	many             *[]dim // all of them, where they are more
	few              [2]dim
}

// rest is what else is known of a host.
type rest struct {
	labels []gate.Label // sorted; a group's own, or the host's in a mixed group
	limits []gate.Dim   // of the dimensions, for Feasible

	incarnation, sequence int64
	receivedAt            time.Duration
	spokeAt               time.Duration // when it last said this, or the same again
	maxAsk                gate.Bytes
	prev, next            int32 // in the order of receivedAt

	own      bool   // of this replica's share
	heard    bool   // since this table began
	word     Reason // the standing by its own word alone, and the operator's
	intake   Intake // its own word
	muted    bool   // it cannot be asked now, whatever it said; see Mute
	ordered  Intake // the operator's, which stands above it
	setAside bool   // memory, for a waiter
}

// live says whether the place is a host's.
func (h *host) live() bool { return h.id != "" }

// dim is what a host has left of one hard dimension.
type dim struct {
	name          string
	free, pending int64
}

// dims are a host's hard dimensions, in the order in which it declared them.
func (h *host) dims() []dim {
	if h.many != nil {
		return *h.many
	}
	return h.few[:h.declared]
}

// declare replaces the dimensions by as many new ones, which are still to be filled in.
func (h *host) declare(n int) {
	h.few, h.many, h.declared = [2]dim{}, nil, 0
	if n <= len(h.few) {
		h.declared = uint8(n)
		return
	}
	many := make([]dim, n)
	h.many = &many
}

// Ref names a registered host without its id. It outlives the host harmlessly.
type Ref struct {
	index int32
	gen   uint32
}

// New makes an empty table: nobody is a candidate before it was heard.
func New(o Options) *Table {
	o = o.withDefaults()
	return &Table{
		opts: o, byID: map[string]int32{}, oldest: none, newest: none,
		kinds:   newKinds(),
		cohorts: cohorts{at: map[placeOf]int32{}, full: map[Cohort]int32{}}, records: map[int32]*record{},
		names: map[string]string{},
	}
}

// Len counts the registered hosts.
func (t *Table) Len() int { return len(t.byID) }

// Stats returns the counts of reports so far.
func (t *Table) Stats() Stats { return t.stats }

// Lookup finds a host by its id.
func (t *Table) Lookup(id string) (Ref, bool) {
	i, ok := t.byID[id]
	if !ok {
		return Ref{index: none}, false
	}
	return Ref{index: i, gen: t.hosts[i].gen}, true
}

// at returns the host of a ref, nil if it was forgotten.
func (t *Table) at(r Ref) *host {
	if r.index < 0 || int(r.index) >= len(t.hosts) || t.hosts[r.index].gen != r.gen {
		return nil
	}
	return &t.hosts[r.index]
}

// Registration is what the registry knows of a host before it was heard: enough to judge
// whether an ask could ever fit, never enough to pick it.
type Registration struct {
	Host   string
	Mode   gate.Mode
	MaxAsk gate.Bytes
	Labels []gate.Label
	Limits []gate.Dim // of its hard dimensions
}

// Register adds a host, or brings up to date one that was not heard yet. A host that is missing
// from a list of the registry stays: absence is never death. One without a name is none.
func (t *Table) Register(r Registration) {
	if r.Host == "" {
		return
	}
	i, known := t.byID[r.Host]
	if !known {
		i = t.add(r.Host)
	}
	l := &t.rests[i]
	if l.heard {
		return
	}
	t.hosts[i].mode, l.maxAsk = r.Mode, r.MaxAsk
	l.labels, l.limits = sortedLabels(r.Labels), append(l.limits[:0], r.Limits...)
}

// Forget removes a host for good: it was buried, or unregistered itself.
func (t *Table) Forget(id string) bool {
	i, ok := t.byID[id]
	if !ok {
		return false
	}
	t.unlink(i)
	t.unindex(i)
	h := &t.hosts[i]
	t.counts[h.standing]--
	delete(t.byID, id)
	t.uneven = true
	delete(t.records, i)
	*h = host{gen: h.gen + 1}
	t.rests[i] = rest{prev: none, next: none}
	t.spots[i] = spot{group: none, bucket: none}
	t.spare = append(t.spare, i)
	return true
}

func (t *Table) add(id string) int32 {
	var i int32
	if n := len(t.spare); n > 0 {
		i, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		i = int32(len(t.hosts))
		t.hosts = append(t.hosts, host{gen: 1})
		t.rests = append(t.rests, rest{})
		t.spots = append(t.spots, spot{group: none, bucket: none})
	}
	h := &t.hosts[i]
	*h = host{id: id, print: printOf(id), gen: h.gen, standing: Unheard}
	t.rests[i] = rest{own: t.ownsNew(id), word: Unheard, prev: none, next: none}
	t.counts[Unheard]++
	t.byID[id] = i
	t.uneven = true
	return i
}
