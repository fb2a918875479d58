package table

import (
	"fmt"
	"maps"
	"slices"
)

// CheckInvariants recomputes from the hosts and charges alone what the table keeps beside them.
func (t *Table) CheckInvariants() error {
	for _, check := range []func() error{t.checkHosts, t.checkIndex, t.checkOrder, t.checkCharges, t.checkCohorts, t.checkQuarantine} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) checkHosts() error {
	var counts [reasons]int
	own := t.share()
	for i := range t.hosts {
		h, s := &t.hosts[i], &t.spots[i]
		if !h.live() {
			if s.indexed() {
				return fmt.Errorf("table: forgotten host %d is indexed", i)
			}
			continue
		}
		counts[h.standing]++
		if !t.uneven && t.rests[i].own != own[i] {
			return fmt.Errorf("table: host %q is own %v, the shares say otherwise", h.id, t.rests[i].own)
		}
		if j, ok := t.byID[h.id]; !ok || int(j) != i {
			return fmt.Errorf("table: host %q is not found by its id", h.id)
		}
		if (h.standing == Candidate) != s.indexed() {
			return fmt.Errorf("table: host %q is %v, indexed %v", h.id, h.standing, s.indexed())
		}
		if s.indexed() {
			if err := t.checkSpot(h, s, int32(i)); err != nil {
				return err
			}
		}
	}
	if counts != t.counts {
		return fmt.Errorf("table: hosts by standing are %v, counted %v", counts, t.counts)
	}
	return nil
}

func (t *Table) checkSpot(h *host, s *spot, i int32) error {
	g := t.groups[s.group]
	if !t.holds(g, i) || !g.mixed && !slices.Equal(g.labels, t.rests[i].labels) {
		return fmt.Errorf("table: host %q is in a group of other hosts", h.id)
	}
	if b := t.bucketOf(h); s.bucket != b {
		return fmt.Errorf("table: host %q is in bucket %d, its score says %d", h.id, s.bucket, b)
	}
	if e := g.heaps[s.bucket][s.pos]; e != (entry{room: h.indexed(), ref: i}) || s.room != e.room {
		return fmt.Errorf("table: host %q has room %d, its entry says %v", h.id, h.indexed(), e)
	}
	return nil
}

func (t *Table) checkIndex() error {
	total := 0
	for k, g := range t.groups {
		n, err := g.check(t.peaks[k])
		if err != nil {
			return fmt.Errorf("table: group %d: %w", k, err)
		}
		total += n
	}
	if len(t.groups) >= manyGroups {
		for s, want := range t.countLevels() {
			if l := &t.levels[s]; l.top != want.top || !slices.Equal(l.hosts, want.hosts) || !slices.Equal(l.some, want.some) {
				return fmt.Errorf("table: side %d has hosts up to bucket %d, counted up to %d", s, want.top, l.top)
			}
		}
	}
	if total != t.counts[Candidate] {
		return fmt.Errorf("table: %d entries for %d candidates", total, t.counts[Candidate])
	}
	return nil
}

// check counts a group's entries, and looks at its heaps, its tree and its peak.
func (g *group) check(remembered peak) (total int, err error) {
	buckets, p := len(g.heaps), peak{bucket: none, room: noRoom, most: g.best[1]}
	for b, heap := range g.heaps {
		total += len(heap)
		most := int32(noRoom)
		if len(heap) > 0 {
			p.bucket, p.room, p.hosts = int32(b), heap[0].room, int32(len(heap))
		}
		for i, e := range heap {
			if i > 0 && e.room > heap[(i-1)/arity].room {
				return 0, fmt.Errorf("bucket %d: entry %d has more room than its parent", b, i)
			}
			most = max(most, e.room)
		}
		if g.best[buckets+b] != most {
			return 0, fmt.Errorf("bucket %d: most room is %d, the tree says %d", b, most, g.best[buckets+b])
		}
	}
	if p != remembered {
		return 0, fmt.Errorf("the peak is %+v, remembered %+v", p, remembered)
	}
	for i := 1; i < buckets; i++ {
		if g.best[i] != max(g.best[2*i], g.best[2*i+1]) {
			return 0, fmt.Errorf("tree node %d is not the higher of its two", i)
		}
	}
	return total, nil
}

// checkOrder walks the hosts heard: by time, none too old, none left out.
func (t *Table) checkOrder() error {
	seen, last := 0, none
	for i := t.oldest; i != none; i = t.rests[i].next {
		l := &t.rests[i]
		if l.prev != last || last != none && t.rests[last].receivedAt > l.receivedAt {
			return fmt.Errorf("table: host %q is out of the order of receipt", t.hosts[i].id)
		}
		if age := t.now - l.receivedAt; age >= t.opts.Silent {
			return fmt.Errorf("table: host %q is %v old and not silent", t.hosts[i].id, age)
		}
		seen, last = seen+1, i
	}
	if want := len(t.byID) - t.counts[Unheard] - t.counts[Silent]; seen != want || last != t.newest {
		return fmt.Errorf("table: %d hosts in the order of receipt, not %d", seen, want)
	}
	return nil
}

func (t *Table) checkCharges() error {
	type sums struct {
		need int64
		cpu  int64
		dims int64 // all of them together
	}
	byHost, open := map[Ref]sums{}, 0
	for i := range t.charges {
		if c := &t.charges[i]; c.open {
			s := byHost[c.host]
			byHost[c.host] = sums{s.need + c.need, s.cpu + c.cpu, s.dims + t.declared(c)}
			open++
		}
	}
	if open != t.Outstanding() {
		return fmt.Errorf("table: %d charges are open, %d outstanding", open, t.Outstanding())
	}
	for i := range t.hosts {
		h, dims := &t.hosts[i], int64(0)
		for _, d := range h.dims() {
			dims += d.pending
		}
		if got, want := (sums{h.pending, h.pendingCPU, dims}), byHost[Ref{int32(i), h.gen}]; h.live() && got != want {
			return fmt.Errorf("table: host %q is charged %v, its charges sum to %v", h.id, got, want)
		}
	}
	return nil
}

// declared sums a charge's amounts of what its host declares.
func (t *Table) declared(c *charge) (sum int64) {
	if h := t.at(c.host); h != nil {
		for _, d := range h.dims() {
			sum += takes(c.dims, d.name)
		}
	}
	return sum
}

// checkCohorts counts the placements and charges of each cohort anew.
func (t *Table) checkCohorts() error {
	c := &t.cohorts
	at, full := map[placeOf]int32{}, map[Cohort]int32{}
	for i := range c.n {
		p := c.ring[(c.head+i)%len(c.ring)]
		if at[p.placeOf]++; t.now-p.at >= c.window {
			return fmt.Errorf("table: a placement of %v counts at %v", p.at, t.now)
		}
	}
	for i := range t.charges {
		if k := &t.charges[i]; k.open && k.cohort != 0 {
			at[placeOf{k.cohort, k.host}]++
		}
	}
	for p, n := range at {
		if c.perHost > 0 && n >= c.perHost {
			full[p.cohort]++
		}
	}
	if !maps.Equal(at, c.at) || !maps.Equal(full, c.full) {
		return fmt.Errorf("table: cohorts are %v, full %v; counted %v, %v", at, full, c.at, c.full)
	}
	return nil
}

// checkQuarantine compares each host's standing with its word and what is held against it.
func (t *Table) checkQuarantine() error {
	for i := range t.hosts {
		h, k := &t.hosts[i], t.records[int32(i)]
		if !h.live() && k == nil {
			continue
		}
		want := t.rests[i].word
		if want == Candidate && k != nil && k.out(t.now) {
			want = Quarantined
		}
		if h.standing != want || !h.live() {
			return fmt.Errorf("table: host %q is %v by its word, held against it is %+v, and it stands as %v", h.id, t.rests[i].word, k, h.standing)
		}
		if want == Quarantined && !k.asked && (t.wake > k.until || !slices.Contains(t.waiting, int32(i))) {
			return fmt.Errorf("table: the quarantine of host %q is over at %v, and nobody looks before %v", h.id, k.until, t.wake)
		}
	}
	return nil
}
