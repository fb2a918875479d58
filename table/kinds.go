package table

import (
	"math/bits"

	"github.com/plimsoll-project/plimsoll/gate"
)

// groupSet is a set of groups, by their index.
type groupSet [maxGroups / 64]uint64

func (s *groupSet) add(k int32)       { s[k>>6] |= 1 << (k & 63) }
func (s *groupSet) drop(k int32)      { s[k>>6] &^= 1 << (k & 63) }
func (s *groupSet) bit(k int32) uint8 { return uint8(s[k>>6] >> (k & 63) & 1) }
func (s *groupSet) has(k int32) bool  { return s.bit(k) == 1 }

func (s *groupSet) count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// least is the first of a set that is not empty.
func (s *groupSet) least() int32 {
	for w, word := range s {
		if word != 0 {
			return int32(w<<6 + bits.TrailingZeros64(word))
		}
	}
	return none
}

// both keeps what the other set has, too.
func (s *groupSet) both(o *groupSet) {
	for w := range s {
		s[w] &= o[w]
	}
}

// kinds tell which groups may take an ask without looking at one: a set of groups for each thing
// that an ask can want of a host.
type kinds struct {
	all, mixed groupSet
	committed  groupSet // by mode
	own        groupSet // by side of the share

	labelled map[gate.Label]groupSet // label -> groups whose hosts carry it
	stocked  map[string]groupSet     // dimension -> groups whose hosts have something left of it
}

func newKinds() kinds {
	return kinds{labelled: map[gate.Label]groupSet{}, stocked: map[string]groupSet{}}
}

// add enters a new group.
func (k *kinds) add(at int32, g *group) {
	k.all.add(at)
	if g.mode == gate.Committed {
		k.committed.add(at)
	}
	if g.own {
		k.own.add(at)
	}
	if g.mixed {
		k.mixed.add(at)
		return
	}
	for _, l := range g.labels {
		s := k.labelled[l]
		s.add(at)
		k.labelled[l] = s
	}
	for _, d := range g.stock {
		s := k.stocked[d]
		s.add(at)
		k.stocked[d] = s
	}
}

// taking is the set of groups with hosts that may take an ask: they carry its labels, and have
// something left of each dimension that it takes.
func (k *kinds) taking(a *gate.Ask) groupSet {
	if len(a.Labels)+len(a.Dims) == 0 {
		return k.all
	}
	set := k.all
	for _, l := range a.Labels {
		s := k.labelled[l]
		set.both(&s)
	}
	for i := range a.Dims {
		if d := &a.Dims[i]; d.N > 0 && d.Name != gate.SandboxDim {
			s := k.stocked[d.Name]
			set.both(&s)
		}
	}
	for w := range set { // what the hosts of a mixed group have is seen host by host
		set[w] |= k.mixed[w]
	}
	return set
}

// side is the set of groups on one side of the share.
func (k *kinds) side(w who) groupSet {
	switch w {
	case ownShare:
		return k.own
	case others:
		set := k.all
		for i := range set {
			set[i] &^= k.own[i]
		}
		return set
	default:
		return k.all
	}
}

// peak is what a search reads of a group first. Those of all groups lie side by side, so that of
// many groups little is read.
type peak struct {
	bucket int32 // the highest with anybody, none without
	room   int32 // the most there
	hosts  int32 // that lie there
	most   int32 // room in any bucket
}

// manyGroups is from when on a search guesses before it looks at each, and the hosts are counted
// by their bucket for that.
const manyGroups = 8

// levels count the hosts of one side by their bucket, whatever their group.
type levels struct {
	hosts []int32
	some  []uint64 // a bit for each bucket with anybody
	top   int32    // the highest of these, or none
}

// countLevels counts the hosts of both sides anew.
func (t *Table) countLevels() (l [2]levels) {
	for s := range l {
		l[s] = levels{hosts: make([]int32, t.opts.Buckets), some: make([]uint64, (t.opts.Buckets+63)/64), top: none}
	}
	for _, g := range t.groups {
		for b, heap := range g.heaps {
			for range heap {
				l[side(g.own)].enter(int32(b))
			}
		}
	}
	return l
}

// enter counts one more host in a bucket.
func (l *levels) enter(b int32) {
	l.hosts[b]++
	l.some[b>>6] |= 1 << (b & 63)
	l.top = max(l.top, b)
}

// leave counts one less.
func (l *levels) leave(b int32) {
	if l.hosts[b]--; l.hosts[b] > 0 {
		return
	}
	l.some[b>>6] &^= 1 << (b & 63)
	if b == l.top {
		l.top = l.highest(b)
	}
}

// highest returns the highest bucket with anybody up to one.
func (l *levels) highest(b int32) int32 {
	for w := b >> 6; w >= 0; w-- {
		if l.some[w] != 0 {
			return w<<6 + int32(bits.Len64(l.some[w])) - 1
		}
	}
	return none
}
