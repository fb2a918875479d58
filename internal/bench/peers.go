package bench

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/table"
)

// Other schedulers' ways to choose, over the same hosts and requests as the table: what they do
// for each request is theirs, what a host has and what fits is the same arithmetic.

// place is one host of a peer, with what the peer has reserved there.
type place struct {
	v       *table.Verdict
	pending gate.Bytes
	cpu     int64
	dims    []gate.Dim // reserved, in the order of the verdict's
}

func placesOf(fleet []table.Verdict) []place {
	out := make([]place, len(fleet))
	for i := range fleet {
		out[i] = place{v: &fleet[i], dims: slices.Clone(fleet[i].Dims)}
		for k := range out[i].dims {
			out[i].dims[k].N = 0
		}
	}
	return out
}

// demands says whether a host has what is not memory: labels, dimensions, and no refusal yet.
func (p *place) demands(r *request) bool {
	if slices.Contains(r.exclude, p.v.Host) {
		return false
	}
	for _, l := range r.Labels {
		if !slices.Contains(p.v.Labels, l) {
			return false
		}
	}
	for _, want := range r.Dims {
		if want.N > 0 && !slices.ContainsFunc(p.v.Dims, func(d gate.Dim) bool { return d.Name == want.Name }) {
			return false
		}
	}
	for k, d := range p.v.Dims {
		if d.N-p.dims[k].N < r.Takes(d.Name) {
			return false
		}
	}
	return true
}

func (p *place) fits(r *request) bool {
	return p.v.Admittable-p.pending >= gate.Need(r.Ask, p.v.Mode) && p.demands(r)
}

func (p *place) score() int64 {
	return gate.Score(gate.DefaultWeights(), p.v.CPUFreeMilli-p.cpu, p.v.Free-p.pending, p.v.StreamRestore)
}

func (p *place) reserve(r *request, sign int64) {
	p.pending += gate.Bytes(sign) * gate.Need(r.Ask, p.v.Mode)
	p.cpu += sign * r.CPUMilli
	for k := range p.dims {
		p.dims[k].N += sign * r.Takes(p.dims[k].Name)
	}
}

// peer runs the stream over one way to choose: the index of a place, -1 for none.
type peer struct {
	places []place
	asks   []request
	choose func(places []place, r *request) int
	held   []taken // a ring
	n      int
	misses int // refused although a host fits
}

type taken struct {
	at  int
	ask *request
}

func newPeer(b *bed, o PickOptions, choose func([]place, *request) int) *peer {
	return &peer{places: placesOf(b.hosts), asks: b.asks, choose: choose, held: make([]taken, o.Held)}
}

func (p *peer) op() {
	r, slot := &p.asks[p.n%len(p.asks)], p.n%len(p.held)
	p.n++
	if old := p.held[slot]; old.ask != nil {
		p.places[old.at].reserve(old.ask, -1)
	}
	p.held[slot] = taken{}
	if i := p.choose(p.places, r); i >= 0 {
		p.places[i].reserve(r, 1)
		p.held[slot] = taken{i, r}
	}
}

// countMisses plays on, untimed, and looks at all hosts when a request is refused.
func (p *peer) countMisses(ops int) int {
	choose := p.choose
	p.choose = func(places []place, r *request) int {
		i := choose(places, r)
		if i < 0 && slices.ContainsFunc(places, func(c place) bool { return c.fits(r) }) {
			p.misses++
		}
		return i
	}
	for range ops {
		p.op()
	}
	p.choose = choose
	return p.misses
}

// bestOfThree is E2B's shape: the hosts that are not ruled out are listed, three of them drawn,
// and the best of those that fits is taken.
func bestOfThree(seed uint64) func([]place, *request) int {
	rng := rand.New(rand.NewPCG(seed, 4))
	return func(places []place, r *request) int {
		list := make([]int, 0, len(places))
		for i := range places {
			if !slices.Contains(r.exclude, places[i].v.Host) {
				list = append(list, i)
			}
		}
		best, most := -1, int64(0)
		for k := 0; k < 3 && k < len(list); k++ {
			at := k + rng.IntN(len(list)-k)
			list[k], list[at] = list[at], list[k]
			if p := &places[list[k]]; p.fits(r) && (best < 0 || p.score() > most) {
				best, most = list[k], p.score()
			}
		}
		return best
	}
}

// filterAndSort is the shape of Nomad and of kube-scheduler: copy the list, filter it, score what
// is left, sort it, take the first.
func filterAndSort(places []place, r *request) int {
	type scored struct {
		at    int
		score int64
	}
	copied := slices.Clone(places)
	var fit []scored
	for i := range copied {
		if copied[i].fits(r) {
			fit = append(fit, scored{i, copied[i].score()})
		}
	}
	if len(fit) == 0 {
		return -1
	}
	slices.SortFunc(fit, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.at, b.at)) })
	return fit[0].at
}
