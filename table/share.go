package table

import (
	"cmp"
	"math"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
)

// SetReplicas says which replicas are up, and which of them this table is of. Each host is the
// own share of one of them, by rendezvous hash with the shares kept even: replicas that know of
// the same hosts and of each other agree without a word. Pick takes its own share first, so that
// replicas whose views agree do not all run to the same few hosts. A replica that is alone, or
// not among those that are up, has no share: then every host is as good as another.
//
// Call it now and then: a host that came since is of whoever has the highest weight for it, and
// the shares are made even by the next call. One that changes nothing costs nothing.
func (t *Table) SetReplicas(self string, live []string) {
	live = slices.Clone(live)
	slices.Sort(live)
	live = slices.Compact(live)
	if len(live) < 2 || !slices.Contains(live, self) {
		self, live = "", nil
	}
	if self == t.self && slices.Equal(live, t.replicas) && !t.uneven {
		return
	}
	t.self, t.replicas, t.uneven = self, live, false
	own := t.share()
	for i := range t.hosts {
		h, l := &t.hosts[i], &t.rests[i]
		switch {
		case h.live() && own[i] != l.own:
			t.unindex(int32(i))
			l.own = own[i]
			t.rejoin(int32(i))
		case h.live() && (h.pending != 0 || h.pendingCPU != 0): // which count as often as replicas are up
			t.rejoin(int32(i))
		}
	}
}

// share says of each host whether it is this replica's. In the order of their hashes each host
// goes to the replica with the highest weight for it that has not its part of the hosts yet: a
// plain rendezvous hash gives one replica of sixteen half as much again as another, and a burst
// cannot be even over shares that are not.
func (t *Table) share() []bool {
	own := make([]bool, len(t.hosts))
	if len(t.replicas) == 0 {
		for i := range own {
			own[i] = true
		}
		return own
	}
	type placed struct {
		hash uint64
		at   int32
	}
	order := make([]placed, 0, len(t.byID))
	for i := range t.hosts {
		if h := &t.hosts[i]; h.live() {
			order = append(order, placed{hash(h.id), int32(i)})
		}
	}
	slices.SortFunc(order, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(t.hosts[a.at].id, t.hosts[b.at].id))
	})
	r := newRendezvous(t.replicas)
	left := make([]int, len(t.replicas))
	for k := range left {
		left[k] = (len(order) + len(left) - 1) / len(left)
	}
	for _, h := range order {
		k := r.heaviest(h.hash, func(k int) bool { return left[k] > 0 })
		left[k]--
		own[h.at] = t.replicas[k] == t.self
	}
	return own
}

// ownsNew says whether a host that just came is this replica's until the shares are made even.
func (t *Table) ownsNew(id string) bool {
	if len(t.replicas) == 0 {
		return true
	}
	r := newRendezvous(t.replicas)
	return t.replicas[r.heaviest(hash(id), func(int) bool { return true })] == t.self
}

// rendezvous weighs the replicas, which are sorted by name, for a host.
type rendezvous []uint64 // their hashes

func newRendezvous(replicas []string) rendezvous {
	r := make(rendezvous, len(replicas))
	for k, id := range replicas {
		r[k] = hash(id)
	}
	return r
}

// heaviest is the replica with the highest weight for a host, of those that may; the first
// among equals.
func (r rendezvous) heaviest(host uint64, may func(k int) bool) int {
	at, most := -1, uint64(0)
	for k, id := range r {
		if w := mix(host ^ id); may(k) && (at < 0 || w > most) {
			at, most = k, w
		}
	}
	return at
}

// hash is FNV-1a: the same in every process, which a seeded one is not.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix spreads a sum's bits (splitmix64).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// who narrows a search to one side of the share.
type who uint8

const (
	anybody who = iota
	ownShare
	others
)

// side is a side's index.
func side(own bool) int {
	if own {
		return 1
	}
	return 0
}

// search returns the host that the pick's rule says: one of the own share, from its best bucket,
// unless another's host is better by more than a bucket and one such sandbox; then any host of
// the best bucket. So much is within what a view is old by, and replicas do not run to the same
// few hosts for it; more would leave hosts empty that no burst comes to the owners of.
//
// It is at most two descents of the trees instead of one.
func (t *Table) search(q *query) int32 {
	if len(t.replicas) == 0 {
		found, _ := t.find(q, anybody, 0, math.MaxInt32)
		return found
	}
	own, at := t.find(q, ownShare, 0, math.MaxInt32)
	if own == none {
		found, _ := t.find(q, others, 0, math.MaxInt32)
		return found
	}
	if better, _ := t.find(q, others, at+t.margin(q)+1, math.MaxInt32); better != none {
		return better
	}
	return own
}

// margin is how many buckets the own share may be worse by: one, and those that the ask moves a
// host by at least.
func (t *Table) margin(q *query) int32 {
	least := gate.FromMiB(int64(q.need[gate.WorkingSet]))
	worth := gate.Score(t.opts.Weights, max(q.ask.CPUMilli, 0), least, false)
	return int32(min(1+worth/t.opts.BucketWidth, int64(t.opts.Buckets)))
}
