package control

import (
	"context"
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
)

// SetMode is POST /v1/mode: it takes something out of force, or puts it back. The store has the
// word; this replica follows it at once and tells the hosts, the others when they look.
func (g *Gateway) SetMode(ctx context.Context, who *config.Consumer, q api.ModeRequest) (api.ModeReport, error) {
	t, err := g.targetOf(&q)
	if err == nil {
		err = checkReason(q.Reason)
	}
	if err != nil {
		return api.ModeReport{}, err
	}
	var v pool.OrderVerdict
	if q.Mode == api.ModeRequestModeShadow {
		v, err = g.Store.Shadow(ctx, t, who.Name, q.Reason)
	} else {
		v, err = g.Store.Enforce(ctx, t, who.Name, q.Reason)
	}
	switch {
	case g.failed(err, "mode", string(q.Mode)):
		return api.ModeReport{}, g.Refused(api.Refuse(api.Unavailable, "the store did not answer; say it again, which changes nothing if it was written"), who)
	case v == pool.OrderNoPool:
		return api.ModeReport{}, g.Refused(api.Refuse(api.NotFound, "no pool %q is in force", t.Name), who)
	case v == pool.OrderOfAll:
		return api.ModeReport{}, g.Refused(api.Refuse(api.ModeOfAll, "while all is in shadow by one order, one thing alone cannot be put back"), who)
	}
	g.Log.Warn("an operator changed what is enforced", "by", who.Name, "mode", q.Mode, "scope", q.Scope, "name", q.Name, "reason", q.Reason)
	if err := g.readRegistry(ctx); err != nil {
		g.Log.Warn("an order is written, and not read here yet", "err", err)
	}
	g.tellOrders(ctx)
	g.wakes.wake()
	return g.Mode(ctx, who)
}

func (g *Gateway) targetOf(q *api.ModeRequest) (pool.Target, error) {
	t := pool.Target{Scope: pool.Scope(q.Scope), Name: q.Name}
	switch t.Scope {
	case pool.OfAll, pool.OfQuotas:
		if t.Name != "" {
			return t, api.Refuse(api.InvalidRequest, "name: %s has none; leave it out", t.Scope)
		}
		return t, g.knownMode(q.Mode)
	case pool.OfHost:
		if !g.knowsHost(t.Name) {
			return t, api.Refuse(api.NotFound, "no host %q is registered", t.Name)
		}
		return t, g.knownMode(q.Mode)
	case pool.OfPool:
		return t, g.knownMode(q.Mode)
	}
	return t, api.Refuse(api.InvalidRequest, "scope: %q is not known here; write all, quotas, pool or host", q.Scope)
}

func (g *Gateway) knownMode(m api.ModeRequestMode) error {
	if m != api.ModeRequestModeShadow && m != api.ModeRequestModeEnforce {
		return api.Refuse(api.InvalidRequest, "mode: %q is not known here; write shadow or enforce", m)
	}
	return nil
}

func (g *Gateway) knowsHost(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, registered := g.known.hosts[id]
	return registered || g.hosts[id] != nil
}

// orderedOf is what operators ordered of a host. g.mu must be held.
func (g *Gateway) orderedOf(id string) host.Enforcement {
	if g.known.orders.ShadowsHost(id) {
		return host.Shadow
	}
	return host.Enforce
}

// Mode is GET /v1/mode.
func (g *Gateway) Mode(ctx context.Context, who *config.Consumer) (api.ModeReport, error) {
	orders, err := g.Store.Orders(ctx)
	if err != nil {
		return api.ModeReport{}, g.unreadable(err, who)
	}
	lines, err := g.Store.Lines(ctx)
	if err != nil {
		return api.ModeReport{}, g.unreadable(err, who)
	}
	out := api.ModeReport{Orders: []api.ModeOrder{}, Pools: []api.ModeOf{}, Hosts: []api.ModeOf{}}
	for _, t := range orders.Targets() {
		o := orders.Get(t)
		out.Orders = append(out.Orders, api.ModeOrder{Scope: string(t.Scope), Name: t.Name, Since: o.Since.Wall(), By: o.By, Reason: o.Reason})
	}
	settings := pool.Settings{}
	if fleet := g.Fleet(); fleet != nil {
		settings = fleet.Settings()
	}
	for i := range lines {
		l := &lines[i]
		out.Pools = append(out.Pools, modeOf(l.Name, l.Limits.Enforcement, settings.Pools[l.Name].Enforcement, g.would.of(l.Name)))
	}
	quotas := settings.QuotaEnforcement
	if orders.ShadowsQuotas() {
		quotas = pool.Shadow
	}
	out.Quotas = modeOf("quotas", quotas, settings.QuotaEnforcement, nil)
	out.Hosts = g.modesOfHosts(ctx, &orders)
	return out, nil
}

func modeOf(name string, now, configured pool.Enforcement, would map[string]int64) api.ModeOf {
	return api.ModeOf{Name: name, Enforcement: api.Enforcement(now.String()), Configured: api.Enforcement(configured.String()), WouldRefuse: would}
}

func (g *Gateway) modesOfHosts(ctx context.Context, orders *pool.Orders) []api.ModeOf {
	out := []api.ModeOf{}
	for _, link := range g.links() {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		v, err := link.View(ctx)
		cancel()
		m := api.ModeOf{Name: link.ID(), Enforcement: api.Enforcement(v.Verdict.Enforcement.String()), Configured: api.Enforcement(v.Config.Enforcement.String()), WouldRefuse: wouldOf(v.Waived)}
		if ordered := orders.ShadowsHost(link.ID()); err != nil || ordered != (v.Verdict.Ordered == host.Shadow) {
			m.Untold = true
		}
		out = append(out, m)
	}
	return out
}

func wouldOf(waived []host.Waived) map[string]int64 {
	if len(waived) == 0 {
		return nil
	}
	out := make(map[string]int64, len(waived))
	for _, w := range waived {
		out[string(w.Denial)] = w.N
	}
	return out
}

// wouldHave notes a no that a claim or a host only told, for the answer, the pool and the metrics.
func (d *driving) wouldHave(reason string) {
	if reason == "" {
		return
	}
	c := &d.req.Claim
	d.would = append(d.would, reason)
	d.gateway.would.count(c.Pool, reason)
	d.gateway.Metrics.WouldRefuse.WithLabelValues(reason, c.Pool, c.Contents.Class, c.Consumer).Inc()
}

// wouldCode is what enforce would have said to a claim, as a reason of refusals.
func wouldCode(v pool.Verdict) string {
	if v == pool.OverQuota {
		return string(api.TenantOverQuota)
	}
	return string(v)
}

// show notes on an answer that it was given in shadow.
func (d *driving) show(a admission.Answer) admission.Answer {
	a.Would = d.would
	if full := a.Tally[string(host.NoRoom)]; a.Kind == admission.No && len(full) > 0 {
		d.gateway.passOver(full, &d.req.Ask)
	}
	return a
}

// BypassHost is POST /v1/hosts/{id}/bypass: the host itself has the word, for as long as it lasts.
func (g *Gateway) BypassHost(ctx context.Context, who *config.Consumer, id string, q api.BypassRequest) (api.Bypass, error) {
	if err := checkReason(q.Reason); err != nil {
		return api.Bypass{}, err
	}
	lasts := time.Duration(q.ForMS) * time.Millisecond
	if q.ForMS < 0 || q.ForMS > host.LongestBypass.Milliseconds() {
		return api.Bypass{}, api.Refuse(api.InvalidRequest, "for_ms: %d is not between 0 and %d", q.ForMS, host.LongestBypass.Milliseconds())
	}
	link, _, _ := g.link(id)
	if link == nil {
		code := api.NotFound
		if g.isRegistered(id) {
			code = api.HostSilent
		}
		r := api.Refuse(code, "no host %q is connected to this replica", id)
		r.Remedy = "on that machine: plimsoll bypass --socket PATH"
		return api.Bypass{}, g.Refused(r, who)
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answer, err := link.Do(ctx, host.SetBypass{For: lasts, By: who.Name, Reason: q.Reason})
	var v host.View
	if err == nil {
		v, err = link.View(ctx)
	}
	switch {
	case err != nil:
		return api.Bypass{}, g.Refused(api.Refuse(api.Unavailable, "host %s did not answer: %s; say it again, or at its own socket", id, err), who)
	case answer.Denial != "":
		return api.Bypass{}, g.Refused(api.Refuse(api.InvalidRequest, "host %s: %s %s", id, answer.Denial, answer.Detail), who)
	}
	g.Log.Warn("an operator changed whether a host boots without tickets", "by", who.Name, "host", id, "for", lasts, "reason", q.Reason)
	return showBypass(&v), nil
}

// isRegistered says whether a host is in the registry, as this replica last read it, and not buried.
func (g *Gateway) isRegistered(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, listed := g.known.hosts[id]
	return listed && !g.isBuried(id)
}

// showBypass says whether a host boots without tickets.
func showBypass(v *host.View) api.Bypass {
	b := v.Bypass
	if b.Until == 0 {
		return api.Bypass{Host: v.Config.ID}
	}
	return api.Bypass{
		Host: v.Config.ID, Active: true, ForMS: (b.Until - v.Verdict.At).Milliseconds(), By: b.By, Reason: b.Reason, Booted: b.Booted,
	}
}

// audit writes what somebody did at the host, past every replica, and acknowledges it. Every
// replica is told so until one has, and the store writes it once.
func (t *tending) audit(ctx context.Context, deeds []host.Deed, now host.Instant) {
	for _, d := range deeds {
		what := d.What
		if ago := (now - d.At).Truncate(time.Second); ago >= time.Second {
			what += ", " + ago.String() + " before this was written"
		}
		if err := t.gateway.Store.Note(ctx, Deed{By: d.By, What: what, Reason: d.Reason, Origin: originOf(t.link.ID(), &d)}); err != nil {
			t.gateway.Log.Warn("what was done at a host is not in the audit yet", "host", t.link.ID(), "deed", d.What, "err", err)
			return
		}
		if _, err := t.link.Do(ctx, host.AckedDeed{N: d.N}); err != nil {
			return
		}
	}
}

// originOf names a deed of a host. An agent of before deeds had an incarnation names none: its
// number is a moment of the machine's clock, and may come again after a boot.
func originOf(id string, d *host.Deed) string {
	if d.Incarnation == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%d/%d", id, d.Incarnation, d.N)
}

// poolInShadow says whether a pool, or the quotas, refuse nothing, as this replica last read it.
func (g *Gateway) poolInShadow(name string) bool {
	g.mu.Lock()
	ordered := g.known.orders.ShadowsPool(name) || g.known.orders.ShadowsQuotas()
	g.mu.Unlock()
	fleet := g.Fleet()
	if ordered || fleet == nil {
		return ordered
	}
	p, ok := fleet.Pool(name)
	return fleet.QuotaEnforcement == pool.Shadow || (ok && p.Enforcement == pool.Shadow)
}
