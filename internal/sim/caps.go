package sim

import "github.com/plimsoll-project/plimsoll/pool"

// caps is what an onlooker knows of the limits in force: the configuration, and what
// operators set beside it for a while.
type caps struct {
	settings  pool.Settings
	overrides map[string]override // pool -> the last one that was accepted
}

// override is an operator's cap.
type override struct {
	most  int64
	until pool.Time // zero: until it is taken back
}

func newCaps() caps { return caps{overrides: map[string]override{}} }

// endless is more than any pool holds.
const endless = 1 << 40

// most is a pool's cap at a moment.
func (c *caps) most(name string, at pool.Time) int64 {
	if o, ok := c.overrides[name]; ok && (o.until == 0 || at < o.until) {
		return o.most
	}
	if n := c.settings.Pools[name].Cap; n != pool.Unlimited {
		return n
	}
	return endless
}

func (c *caps) quota(tenant string) int64 {
	q, ok := c.settings.Quotas[tenant]
	if !ok {
		q = c.settings.DefaultQuota
	}
	if q == pool.Unlimited {
		return endless
	}
	return q
}

// sum is what all caps come to at a moment.
func (c *caps) sum(at pool.Time) (n int64) {
	for name := range c.settings.Pools {
		n += c.most(name, at)
	}
	return n
}

// with is the same with another cap for one pool; a nil one takes the operator's back.
func (c *caps) with(name string, o *override) caps {
	out := newCaps()
	out.settings = c.settings
	for other, kept := range c.overrides {
		out.overrides[other] = kept
	}
	delete(out.overrides, name)
	if o != nil {
		out.overrides[name] = *o
	}
	return out
}

// worsens says whether a change lets the caps come to more than the ceiling at any moment
// from now on, and to more than they would have without it. It looks at every moment at which
// a cap ends, and at the last one before that.
func (c *caps) worsens(was *caps, now pool.Time) bool {
	moments := []pool.Time{now}
	for _, of := range []*caps{c, was} {
		for _, o := range of.overrides {
			if o.until > now {
				moments = append(moments, o.until-1, o.until)
			}
		}
	}
	for _, at := range moments {
		if n := c.sum(at); c.settings.Ceiling > 0 && n > c.settings.Ceiling && n > was.sum(at) {
			return true
		}
	}
	return false
}

// configure puts other limits in force, unless the caps could then ever come to more than the
// ceiling: an operator is told so.
func (f *Fleet) configure(s pool.Settings) bool {
	f.model().Advance(f.store.time())
	l, now := &f.store.loads, f.model().Now()
	next := l.caps.with("", nil)
	next.settings = s
	nothing := newCaps()
	over, ours := f.model().OverCeiling(s) > 0, next.worsens(&nothing, now)
	if over != ours {
		f.violate(slots, "a configuration whose caps come to %d of %d was judged over the ceiling: %t", next.sum(now), s.Ceiling, over)
	}
	if over {
		return false
	}
	l.caps = next
	f.model().Configure(s)
	return true
}

// setCap carries out what an operator sets of a pool, for a while or until it is taken back;
// a nil cap takes it back.
func (f *Fleet) setCap(name string, o *pool.Override, set func() pool.OverrideVerdict) {
	l, now := &f.store.loads, f.model().Now()
	var wanted *override
	if o != nil {
		wanted = &override{o.Cap, o.Until}
	}
	next := l.caps.with(name, wanted)
	got, worse := set(), next.worsens(&l.caps, now)
	f.operator.last = got
	if (got == pool.OverrideCeiling) != worse {
		f.violate(slots, "a cap for pool %s was %s, and the caps would come to %d of %d", name, got, next.sum(now), l.caps.settings.Ceiling)
	}
	if got == pool.Overridden {
		l.caps = next
	}
}

// checkCeiling proves that the caps in force come to no more than the ceiling.
func (f *Fleet) checkCeiling() {
	c, now := &f.store.loads.caps, f.model().Now()
	if sum := c.sum(now); c.settings.Ceiling > 0 && sum > c.settings.Ceiling {
		f.violate(slots, "the caps come to %d, over the ceiling of %d", sum, c.settings.Ceiling)
	}
}
