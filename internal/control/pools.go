package control

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Pools lists the pools and who holds their slots. A consumer sees itself by name only.
func (g *Gateway) Pools(ctx context.Context, who *config.Consumer) (api.PoolList, error) {
	lines, rows, err := g.occupied(ctx, Filter{})
	if err != nil {
		return api.PoolList{}, g.Refused(api.Refuse(api.Unavailable, "the store could not be read"), who)
	}
	out := api.PoolList{Pools: make([]api.Pool, 0, len(lines))}
	if fleet := g.Fleet(); fleet != nil {
		out.Ceiling = ceilingOf(fleet)
	}
	for _, l := range lines {
		out.Pools = append(out.Pools, g.showPool(l, rows, who))
	}
	return out, nil
}

// occupied reads the pools, and the rows that hold a slot or a place in them.
func (g *Gateway) occupied(ctx context.Context, f Filter) ([]pool.Line, []pool.Row, error) {
	lines, err := g.Store.Lines(ctx)
	if err != nil {
		g.unread(err)
		return nil, nil, err
	}
	f.States = []pool.State{pool.Waiting, pool.Placing, pool.Admitted, pool.Running, pool.Releasing}
	rows, err := g.Store.List(ctx, f)
	if err != nil {
		g.unread(err)
	}
	return lines, rows, err
}

func (g *Gateway) showPool(l pool.Line, rows []pool.Row, who *config.Consumer) api.Pool {
	p := api.Pool{
		Name: l.Name, Placement: api.PlacementHost, Audience: l.Limits.Audience, Busy: l.Busy, Running: &l.Running, Waiting: l.Waiting, MaxWaiting: l.Limits.MaxWaiting,
		Classes: map[string]api.Occupancy{}, Consumers: map[string]api.Occupancy{},
		ConfiguredCap: g.configuredCap(l.Name), Override: showOverride(l.Override), OutOfGate: g.reports.count(l.Name, g.Now()),
	}
	if l.Limits.Enforcement == pool.Shadow {
		p.Enforcement = api.EnforcementShadow
	}
	p.WouldRefuse = g.would.of(l.Name)
	if l.Limits.Audience != "" {
		p.Placement, p.SlotTTLMS, p.TicketTTLMS = api.PlacementNone, l.Limits.SlotTTL.Milliseconds(), l.Limits.TicketTTL.Milliseconds()
	}
	if l.Limits.Cap != pool.Unlimited {
		p.Cap, p.Capped = l.Limits.Cap, true
	}
	named := func(consumer string) bool { return consumer == who.Name || who.Has(config.RoleOperator) }
	for _, s := range l.Limits.Stand(l.Held) {
		if s.Consumer == "" || named(s.Consumer) {
			p.Shares = append(p.Shares, wireShare(s))
		}
	}
	for _, r := range rows {
		if r.Pool != l.Name {
			continue
		}
		count(p.Classes, r.Class, r.State)
		if named(r.Consumer) {
			count(p.Consumers, r.Consumer, r.State)
		}
	}
	return p
}

// configuredCap is a pool's cap by the configuration that is in force here.
func (g *Gateway) configuredCap(name string) *int64 {
	if fleet := g.Fleet(); fleet != nil {
		if p, ok := fleet.Pool(name); ok && p.Cap != config.None {
			n := int64(p.Cap)
			return &n
		}
	}
	return nil
}

func showOverride(o pool.Override) *api.PoolOverride {
	if o.Since == 0 {
		return nil
	}
	return &api.PoolOverride{Cap: o.Cap, Since: o.Since.Wall(), Until: wireTime(o.Until), By: o.By, Reason: o.Reason}
}

// showShare says how a share stands; nil for none.
func showShare(s pool.ShareStanding) *api.ShareStanding {
	if s.Share == (pool.Share{}) {
		return nil
	}
	out := wireShare(s)
	return &out
}

func wireShare(s pool.ShareStanding) api.ShareStanding {
	out := api.ShareStanding{Consumer: s.Consumer, Reserved: s.Reserved, Held: s.Held}
	if s.Consumer == "" {
		out.Priority = &s.Priority
	}
	if s.Max > 0 {
		out.Max = &s.Max
	}
	return out
}

func count(by map[string]api.Occupancy, name string, s pool.State) {
	o := by[name]
	if s == pool.Waiting {
		o.Waiting++
	} else {
		o.Busy++
	}
	by[name] = o
}

// OverridePool is POST /v1/pools/{pool}/override.
func (g *Gateway) OverridePool(ctx context.Context, who *config.Consumer, name string, q api.PoolOverrideRequest) (api.PoolChange, error) {
	if q.Cap < 1 || q.Cap > mostSlots {
		return api.PoolChange{}, api.Refuse(api.InvalidRequest, "cap: %d is not between 1 and %d; to let nothing in, hold the pool", q.Cap, int64(mostSlots))
	}
	lasts, err := lastsFor(&q.ForMS)
	if err != nil {
		return api.PoolChange{}, err
	}
	return g.override(ctx, who, name, pool.Override{Cap: q.Cap, By: who.Name, Reason: q.Reason}, lasts)
}

// HoldPool is POST /v1/pools/{pool}/hold.
func (g *Gateway) HoldPool(ctx context.Context, who *config.Consumer, name string, q api.PoolHoldRequest) (api.PoolChange, error) {
	lasts, err := lastsFor(q.ForMS)
	if err != nil {
		return api.PoolChange{}, err
	}
	return g.override(ctx, who, name, pool.Override{By: who.Name, Reason: q.Reason}, lasts)
}

func (g *Gateway) override(ctx context.Context, who *config.Consumer, name string, o pool.Override, lasts time.Duration) (api.PoolChange, error) {
	if err := checkReason(o.Reason); err != nil {
		return api.PoolChange{}, err
	}
	if fleet := g.Fleet(); fleet != nil {
		if names := fleet.ByHosts(name); len(names) > 0 {
			return api.PoolChange{}, api.Refuse(api.InvalidRequest, "pool: hosts alone record class %s of pool %s, so no cap would count it; cordon the hosts, or apply a configuration without record: host", strings.Join(names, ", "), name)
		}
	}
	v, was, err := g.Store.Override(ctx, name, o, lasts)
	return g.changed(ctx, who, name, overriding{&o, lasts, v, was, err})
}

// ResumePool is POST /v1/pools/{pool}/resume.
func (g *Gateway) ResumePool(ctx context.Context, who *config.Consumer, name string, q api.PoolResumeRequest) (api.PoolChange, error) {
	if err := checkReason(q.Reason); err != nil {
		return api.PoolChange{}, err
	}
	v, was, err := g.Store.Resume(ctx, name, who.Name, q.Reason)
	return g.changed(ctx, who, name, overriding{nil, 0, v, was, err})
}

// The contract's bounds of what an operator sets.
const (
	mostSlots     = 1_000_000_000
	shortestWhile = time.Second
	longestWhile  = 30 * 24 * time.Hour
	longestReason = 256
)

// lastsFor is how long an override lasts; zero, for no word, until it is taken back.
func lastsFor(ms *int64) (time.Duration, error) {
	if ms == nil {
		return 0, nil
	}
	if *ms < shortestWhile.Milliseconds() || *ms > longestWhile.Milliseconds() {
		return 0, api.Refuse(api.InvalidRequest, "for_ms: %d is not between %d and %d", *ms, shortestWhile.Milliseconds(), longestWhile.Milliseconds())
	}
	return time.Duration(*ms) * time.Millisecond, nil
}

func checkReason(s string) error {
	switch {
	case s == "":
		return api.Refuse(api.InvalidRequest, "reason: is missing; say why, for whoever reads the audit")
	case utf8.RuneCountInString(s) > longestReason:
		return api.Refuse(api.InvalidRequest, "reason: longer than %d characters", longestReason)
	}
	for _, c := range s {
		if unicode.IsControl(c) {
			return api.Refuse(api.InvalidRequest, "reason: it has a control character; write one line")
		}
	}
	return nil
}

// overriding is what an operator wanted of a pool, and what became of it.
type overriding struct {
	wish    *pool.Override // nil: none
	lasts   time.Duration
	verdict pool.OverrideVerdict
	was     pool.Limits
	err     error
}

// deed is what was done, in the words of the audit.
func (o overriding) deed(name string) string {
	if o.wish == nil {
		return ResumeDeed(name)
	}
	return OverrideDeed(name, o.wish.Cap, o.lasts)
}

func (g *Gateway) changed(ctx context.Context, who *config.Consumer, name string, o overriding) (api.PoolChange, error) {
	switch {
	case g.failed(o.err, "pool", name):
		return api.PoolChange{}, g.Refused(api.Refuse(api.Unavailable, "the store did not answer; look with plimsoll pools whether it is in force, or ask again"), who)
	case o.verdict == pool.OverrideNoPool:
		return api.PoolChange{}, g.Refused(g.noPool(name), who)
	case o.verdict == pool.OverrideCeiling:
		return api.PoolChange{}, g.Refused(g.overCeiling(ctx, name, o), who)
	}
	g.Log.Info("an operator changed a pool", "by", who.Name, "deed", o.deed(name))
	g.wakes.wake()
	lines, rows, err := g.occupied(ctx, Filter{Pool: name})
	if err == nil {
		for _, l := range lines {
			if l.Name == name {
				return api.PoolChange{Was: api.CapInForce{Cap: max(o.was.Cap, 0), Capped: o.was.Cap != pool.Unlimited}, Pool: g.showPool(l, rows, who)}, nil
			}
		}
	}
	return api.PoolChange{}, g.Refused(api.Refuse(api.Unavailable, "it is in force, but what else is could not be read"), who)
}

// noPool says that a name is no pool's, and what names are.
func (g *Gateway) noPool(name string) *api.Refusal {
	r := api.Refuse(api.NotFound, "no pool %q is in force", name)
	if fleet := g.Fleet(); fleet != nil {
		r.Detail += "; there is " + firstOf(sortedKeys(fleet.Settings().Pools))
	}
	return r
}

// overCeiling says what the caps would come to at their worst, as far as it is known here.
func (g *Gateway) overCeiling(ctx context.Context, name string, o overriding) *api.Refusal {
	r := api.Refuse(api.OverCeiling, "with this of pool %s the caps would sum to more than the ceiling", name)
	fleet := g.Fleet()
	lines, err := g.Store.Lines(ctx)
	now, errNow := g.Store.Now(ctx)
	if fleet == nil || err != nil || errNow != nil {
		return r
	}
	s, overrides := fleet.Settings(), map[string]pool.Override{}
	for _, l := range lines {
		overrides[l.Name] = l.Override
	}
	delete(overrides, name)
	if o.wish != nil {
		o.wish.Since = now
		if o.lasts > 0 {
			o.wish.Until = now.Add(o.lasts)
		}
		overrides[name] = *o.wish
	}
	if by := s.OverCeiling(overrides, now); by > 0 {
		r.Figures.Limit, r.Figures.Use = s.Ceiling, s.Ceiling+by
		r.Detail += ": " + itoa(r.Figures.Use) + " of " + itoa(s.Ceiling)
		r.Remedy = "hold, or lower the cap of, another pool by " + itoa(by) + " first, or ask for " + itoa(by) + " fewer"
	}
	return r
}
