package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// The pools: one on hosts, and one whose sandboxes a substrate boots.
const (
	poolName  = "p"
	pureName  = "q"
	substrata = "functions" // the audience of the latter
)

// The limits. Small, so that slots and quotas are contended beside memory.
const (
	mostWaiting = 30
	quotaOf     = 14
)

// The consumers, and the priority of some classes: there are shares for both.
const (
	plain  = "c"
	batch  = "ci"
	person = "chat"
	urgent = 5
)

// operator is who changes the limits while a fleet runs.
type operator struct {
	base    pool.Settings
	changes []*change // in force on top of it
	last    pool.OverrideVerdict
}

// change is one that is taken back later.
type change struct{ do func(*pool.Settings) }

// drawLimits are what a seed begins with.
func (f *Fleet) drawLimits() pool.Settings {
	onHosts := int64(4 + f.plan.Hosts*(3+f.rand.IntN(12)))
	without := int64(3 + f.plan.Callers/6)
	p := pool.Limits{Cap: onHosts, MaxWaiting: 4 + f.rand.Int64N(mostWaiting)}
	q := pool.Limits{
		Cap: without, MaxWaiting: 2 + f.rand.Int64N(mostWaiting), Audience: substrata,
		SlotTTL: f.between(30*time.Second, longestSlot), TicketTTL: f.between(20*time.Second, time.Minute),
	}
	if f.chance(70) {
		p.Shares = f.drawShares(onHosts)
	}
	if f.chance(70) {
		q.Shares = f.drawShares(without)
	}
	return pool.Settings{
		Pools: map[string]pool.Limits{poolName: p, pureName: q}, DefaultQuota: quotaOf,
		Quotas: map[string]int64{"t1": 5}, Ceiling: onHosts + without + f.rand.Int64N(6),
	}
}

// drawShares parts some of a cap: a reserve for persons, another for what is urgent, and a
// bound on batches.
func (f *Fleet) drawShares(most int64) (out []pool.Share) {
	if f.chance(70) {
		out = append(out, pool.Share{Consumer: person, Reserved: 1 + f.rand.Int64N(1+most/4)})
	}
	if f.chance(50) {
		out = append(out, pool.Share{Priority: urgent, Reserved: f.rand.Int64N(1 + most/5), Max: 1 + most/2})
	}
	if f.chance(70) {
		reserved := f.rand.Int64N(1 + most/8)
		out = append(out, pool.Share{Consumer: batch, Reserved: reserved, Max: reserved + 1 + f.rand.Int64N(1+most/2)})
	}
	return out
}

// alter puts a change in force, as far as the ceiling lets it, and returns what takes it back.
func (f *Fleet) alter(do func(*pool.Settings)) func() {
	c := &change{do}
	f.operator.changes = append(f.operator.changes, c)
	f.apply()
	return func() {
		f.operator.changes = slices.DeleteFunc(f.operator.changes, func(other *change) bool { return other == c })
		f.apply()
	}
}

// apply configures what the operator wants by now.
func (f *Fleet) apply() bool {
	s := f.operator.base
	s.Pools, s.Quotas = maps.Clone(s.Pools), maps.Clone(s.Quotas)
	for _, c := range f.operator.changes {
		c.do(&s)
	}
	return f.configure(s)
}

// lowerCap halves the cap of a pool.
func (f *Fleet) lowerCap(e Episode) func() {
	name := f.somePool(e)
	return f.alter(func(s *pool.Settings) {
		l := s.Pools[name]
		l.Cap = max(l.Cap/2, 1)
		s.Pools[name] = l
	})
}

func (f *Fleet) somePool(e Episode) string { return []string{poolName, pureName}[e.Who/2%2] }

// reconfigure draws other shares and quotas, and moves some slots from one pool to the other.
func (f *Fleet) reconfigure(e Episode) func() {
	name, other := f.somePool(e), poolName
	if name == other {
		other = pureName
	}
	moved := f.operator.base.Pools[name].Cap * int64(e.Arg) / 40
	quota, places := 2+f.rand.Int64N(quotaOf), 1+f.rand.Int64N(mostWaiting)
	shares := f.drawShares(f.operator.base.Pools[name].Cap - moved)
	return f.alter(func(s *pool.Settings) {
		from, to := s.Pools[name], s.Pools[other]
		by := min(moved, from.Cap)
		from.Cap -= by
		to.Cap += by
		from.Shares, from.MaxWaiting = shares, places
		s.Pools[name], s.Pools[other] = from, to
		s.Quotas["t0"] = quota
	})
}

// capForAWhile sets a cap that ends by itself, some above what is configured.
func (f *Fleet) capForAWhile(e Episode) {
	name := f.somePool(e)
	o := pool.Override{Cap: f.operator.base.Pools[name].Cap * int64(e.Arg) / 10, By: "an operator", Reason: "fault"}
	f.override(name, &o, max(e.For, time.Second))
}

// hold lets nothing in until the operator resumes.
func (f *Fleet) hold(e Episode) func() {
	name := f.somePool(e)
	f.override(name, &pool.Override{By: "an operator", Reason: "hold"}, 0)
	return func() { f.override(name, nil, 0) }
}

// override sets a pool's cap, or takes that back; the store may fail as for everybody else.
func (f *Fleet) override(name string, o *pool.Override, lasts time.Duration) {
	f.store.transact(writeOverride, func() { f.overridden(name, o, lasts) }, func(bool) {})
}

func (f *Fleet) overridden(name string, o *pool.Override, lasts time.Duration) {
	if o == nil {
		f.setCap(name, nil, func() pool.OverrideVerdict {
			got, _ := f.model().Resume(name)
			return got
		})
		return
	}
	if lasts > 0 {
		o.Until = f.model().Now().Add(lasts)
	}
	f.setCap(name, o, func() pool.OverrideVerdict {
		got, _ := f.model().Override(name, *o, lasts)
		return got
	})
	f.tell("the cap of pool %s is set to %d for %v", name, o.Cap, lasts)
}

// relent takes back whatever operators did.
func (f *Fleet) relent() {
	if f.operator.base.Pools == nil {
		return
	}
	f.operator.changes = nil
	f.model().Advance(f.store.time())
	for range 3 { // what bounds a step may be taken back by the next one
		for _, name := range []string{poolName, pureName} {
			f.overridden(name, nil, 0)
		}
		f.apply()
	}
}

// audience is whose tickets a row's are.
func audience(r *pool.Row) string {
	if r.Audience != "" {
		return ticket.ForSubstrate(r.Audience)
	}
	return r.Host
}
