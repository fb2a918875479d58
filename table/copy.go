package table

import (
	"maps"
	"slices"
)

// Copy is a table of the same hosts, with what is charged to them and held against them, for asking
// what would be if. Nothing that is done to one is seen in the other. It reads every host.
func (t *Table) Copy() *Table {
	c := New(t.opts)
	c.now, c.oldest, c.newest, c.counts, c.stats = t.now, t.oldest, t.newest, t.counts, t.stats
	c.self, c.replicas, c.uneven = t.self, slices.Clone(t.replicas), t.uneven
	c.wake, c.slotted = t.wake, t.slotted
	c.byID, c.names, c.records = maps.Clone(t.byID), maps.Clone(t.names), map[int32]*record{}
	for i, k := range t.records {
		held := *k
		c.records[i] = &held
	}
	c.charges, c.idle = slices.Clone(t.charges), slices.Clone(t.idle)
	c.spare, c.waiting = slices.Clone(t.spare), slices.Clone(t.waiting)
	c.cohorts = t.cohorts.copy()
	c.hosts, c.rests, c.spots = slices.Clone(t.hosts), slices.Clone(t.rests), make([]spot, len(t.spots))
	for i := range c.hosts {
		c.copyHost(int32(i), t.spots[i].group != none)
	}
	return c
}

// copyHost parts a host from the one that it was copied from, and lays it into the new index.
func (t *Table) copyHost(i int32, grouped bool) {
	h, l := &t.hosts[i], &t.rests[i]
	if h.many != nil {
		many := slices.Clone(*h.many)
		h.many = &many
	}
	l.limits = slices.Clone(l.limits)
	t.spots[i] = spot{group: none, bucket: none}
	if grouped {
		t.enter(i)
		t.reindex(i)
	}
}

func (c *cohorts) copy() cohorts {
	out := *c
	out.at, out.full, out.ring = maps.Clone(c.at), maps.Clone(c.full), slices.Clone(c.ring)
	return out
}
