package pool

import (
	"slices"
	"time"
)

// Override is what an operator sets of a pool for a while. It outlives a change of the
// configuration, and ends by itself.
type Override struct {
	Cap    int64 // never Unlimited
	Until  Time  // zero: until it is taken back
	Since  Time  // zero: there is none
	By     string
	Reason string
}

// InForce says whether it counts at this moment.
func (o Override) InForce(now Time) bool {
	return o.Since != 0 && (o.Until == 0 || now < o.Until)
}

// OverrideVerdict is what became of an override.
type OverrideVerdict string

// The verdicts.
const (
	Overridden      OverrideVerdict = "overridden"
	OverrideNoPool  OverrideVerdict = "no_such_pool"
	OverrideCeiling OverrideVerdict = "over_ceiling"
)

// Override sets a pool's cap for as long as is said, or until it is taken back for zero; Since
// and Until are set here. At every moment from now on the caps then sum to the ceiling at
// most, or to no more than they would have: what does not make it worse is not refused. It
// returns what was in force before.
func (k Clerk) Override(name string, o Override, lasts time.Duration) (OverrideVerdict, Limits) {
	o.Since, o.Until = k.books.Now(), 0
	if lasts > 0 {
		o.Until = o.Since.Add(lasts)
	}
	return k.override(name, o)
}

// Resume takes back what an operator set.
func (k Clerk) Resume(name string) (OverrideVerdict, Limits) { return k.override(name, Override{}) }

func (k Clerk) override(name string, o Override) (OverrideVerdict, Limits) {
	was, ok := k.limits(name)
	if !ok {
		return OverrideNoPool, was
	}
	before, after := k.caps(), k.caps()
	after.overrides[name] = o
	ceiling := k.books.Ceiling()
	for _, at := range slices.Concat(before.changes(k.books.Now()), after.changes(k.books.Now())) {
		if ceiling > 0 && after.sum(at) > max(before.sum(at), ceiling) {
			return OverrideCeiling, was
		}
	}
	k.books.PutOverride(name, o)
	return Overridden, was
}

// caps are those of all pools, as configured and as operators set them.
type caps struct {
	configured map[string]int64
	overrides  map[string]Override
}

func (k Clerk) caps() caps {
	c := caps{map[string]int64{}, map[string]Override{}}
	for _, name := range k.books.Pools() {
		l, _ := k.books.Limits(name)
		c.configured[name], c.overrides[name] = l.Cap, k.books.Override(name)
	}
	return c
}

// changes are the moments, from now on, at which a cap is another than before.
func (c caps) changes(now Time) []Time {
	times := []Time{now}
	for _, o := range c.overrides {
		if o.InForce(now) && o.Until != 0 {
			times = append(times, o.Until)
		}
	}
	return times
}

// sum is what the caps sum to at a moment.
func (c caps) sum(at Time) (sum int64) {
	for name, n := range c.configured {
		if o := c.overrides[name]; o.InForce(at) {
			n = o.Cap
		}
		sum += max(n, 0)
	}
	return sum
}

// OverCeiling says by how much the caps would ever sum to more than the ceiling, were these
// settings in force beside what operators set; zero when they never do.
func (s Settings) OverCeiling(overrides map[string]Override, now Time) int64 {
	if s.Ceiling <= 0 {
		return 0
	}
	c := caps{map[string]int64{}, map[string]Override{}}
	for name, l := range s.Pools {
		c.configured[name], c.overrides[name] = l.Cap, overrides[name]
	}
	var most int64
	for _, at := range c.changes(now) {
		most = max(most, c.sum(at))
	}
	return max(most-s.Ceiling, 0)
}
