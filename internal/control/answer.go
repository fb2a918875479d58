package control

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// call is one caller's request on its way to an answer.
type call struct {
	gateway *Gateway
	who     *config.Consumer
	ask     gate.Ask
	key     string
	receipt string                // that the caller handed back
	request *api.AdmissionRequest // nil: it is of a row
	claim   pool.Claim
	pin     table.PickOptions
	began   time.Duration
}

// finish says a passage's answer in the words of the API.
func (c call) finish(ctx context.Context, a admission.Answer) (Outcome, error) {
	switch a.Kind {
	case admission.Yes:
		return c.yes(ctx, a)
	case admission.Wait:
		w := c.waiting(a)
		return Outcome{Waiting: &w}, nil
	case admission.Gone, admission.Going:
		adm := c.gateway.show(a.Row)
		return Outcome{Admission: &adm, Releasing: a.Kind == admission.Going}, nil
	}
	return Outcome{}, c.refusal(a)
}

// yes mints the ticket: a function of the row, so any replica can do it again.
func (c call) yes(ctx context.Context, a admission.Answer) (Outcome, error) {
	g := c.gateway
	adm := g.show(a.Row)
	if !a.New { // else it was asked for by what show says
		adm = g.standing(ctx, a.Row)
	}
	adm.DecisionID = yesID(&a.Row)
	adm.HeartbeatMS = g.heartbeatOf(a.Row).Milliseconds()
	if a.Row.State == pool.Admitted || (a.Row.State == pool.Running && a.Row.HoldOnExit) {
		text, err := g.mint(a.Row)
		if err != nil {
			g.Log.Error("ticket not minted", "id", a.Row.ID, "err", err)
			return Outcome{}, g.refused(api.Refuse(api.Internal, "the ticket could not be minted"), c.who, a.Row.Class, a.Row.Pool)
		}
		adm.Ticket = text.Reveal()
		adm.ExpiresAt = wireTime(a.Row.ReservedUntil)
	}
	if a.New {
		adm.WouldRefuse = a.Would
		g.admitted(c, a.Row)
		c.granted(adm.DecisionID, &a.Row)
	}
	return Outcome{Admission: &adm, New: a.New}, nil
}

// heartbeatOf is how often a caller should keep what it has: a third of what it lives for.
// What runs on a host lives without, unless it may be started anew.
func (g *Gateway) heartbeatOf(r pool.Row) time.Duration {
	now := g.storeNow()
	switch {
	case r.Audience != "" && r.State == pool.Admitted:
		return max(min(r.LiveUntil, r.ReservedUntil).Since(now), 0) / 3
	case r.Audience != "":
		return max(r.LiveUntil.Since(now), 0) / 3
	case r.State == pool.Admitted || r.HoldOnExit:
		return g.Passage.BootWithin / 3
	}
	return 0
}

func (g *Gateway) mint(r pool.Row) (ticket.Text, error) {
	audience := r.Host
	if r.Audience != "" {
		audience = ticket.ForSubstrate(r.Audience)
	}
	keys, err := g.audience(audience)
	if err != nil {
		return "", err
	}
	return keys.Mint(&ticket.Claims{
		Consumer: r.Consumer, Key: r.Key, Pool: r.Pool, Class: r.Class, Tenant: r.Tenant,
		AdmissionID: r.ID, Memory: gate.FromMiB(r.MemoryMB), Epoch: r.Epoch,
		Issued: r.AdmittedAt.Wall(), Expires: r.ReservedUntil.Wall(),
	})
}

// waiting says where a waiter stands and when to come back.
func (c call) waiting(a admission.Answer) api.Waiting {
	g, s := c.gateway, a.Standing
	w := api.Waiting{
		Code: api.WaitingCapacity, ID: a.Row.ID, Key: a.Row.Key, State: api.AdmissionState(a.Row.State), Pool: a.Row.Pool,
		WaitingFor: lackOf(a.Row), Position: placeOf(a),
		QueuedForMS: g.queuedFor(a.Row).Milliseconds(),
		DecisionID:  newID("dec"),
	}
	w.PoolBusy, w.Cap = busyOf(s)
	w.Share = showShare(s.Share)
	if s.AtQuota() {
		w.Use, w.Limit = &s.QuotaUse, &s.QuotaLimit
	}
	h := c.appoint(a.Row.Key, c.turn(a.Row.Pool, w.Position))
	w.RetryAfterMS, w.Receipt = h.retry.Milliseconds(), h.receipt
	g.told.note(a.Row.ID, toldHint{in: h.retry, after: g.queuedFor(a.Row)})
	w.PollAfterMS = g.pollAfter(a.Row.Pool, w.Position, h.retry).Milliseconds()
	c.queued(&a, &w)
	return w
}

// lackOf is what a row waits for. One that is being placed has its slot.
func lackOf(r pool.Row) api.WaitingFor {
	return api.WaitingFor(cmp.Or(r.WaitingFor, pool.ForHost))
}

// refusal says a no with everything that it rests on.
func (c call) refusal(a admission.Answer) error {
	r := &api.Refusal{Code: a.Code, Detail: a.Detail}
	f := &r.Figures
	f.Pool, f.Position = a.Row.Pool, placeOf(a)
	if b, limit := busyOf(a.Standing); b != nil {
		f.PoolBusy, f.Cap = *b, limit
	}
	if a.Code == api.PoolFull || a.Code == api.QueueFull || a.Code == api.QueueTimeout {
		f.Share, f.Override = showShare(a.Standing.Share), showOverride(a.Standing.Override)
	}
	if a.Code == api.TenantOverQuota {
		f.Use, f.Limit = a.Standing.QuotaUse, a.Standing.QuotaLimit
	}
	if a.Code == api.QueueTimeout {
		f.TimedOut, f.QueuedFor = true, a.Row.EndedAt.Since(a.Row.QueuedAt)
	}
	f.Hosts = refusing(a.Tally)
	if r.Detail == "" {
		r.Detail = c.explain(a)
	}
	if len(f.Hosts) > 0 { // hosts were asked, and all of those that could be said no
		r.Scope = api.ScopeFleet
	}
	if pinned := a.Row.Contents.Host; pinned != "" && !a.Row.Prefer && len(f.Hosts) > 0 {
		fits := c.fitsElsewhere(pinned)
		r.Scope, f.ElsewhereFits, r.Remedy = api.ScopeHost, &fits, elsewhere(pinned, fits)
	}
	if r.Code.Meaning().Retryable() {
		h := c.appoint(c.key, c.comeBack(a))
		r.RetryAfter, r.Receipt = h.retry, h.receipt
	}
	return c.gateway.refusedFor(r, c.who, &about{
		class: a.Row.Class, pool: a.Row.Pool, key: c.key, tenant: c.claim.Contents.Tenant, row: &a.Row,
		facts: c.facts(&a, r), evidence: c.evidence(&a), held: c.held(c.key),
	})
}

// refusing is the tally without the hosts that were left out because they had refused
// already: they stand in it under their own reason.
func refusing(t admission.Tally) map[string][]string {
	out := maps.Clone(t)
	delete(out, admission.Excluded)
	return out
}

// fitsElsewhere tells a caller who may have just one host whether another had room.
func (c call) fitsElsewhere(pinned string) bool {
	g := c.gateway
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.table.Pick(g.Now(), &c.ask, &table.PickOptions{Exclude: []string{pinned}})
	return ok
}

// elsewhere says whether to wait for that host or to move.
func elsewhere(pinned string, fits bool) string {
	if fits {
		return "another host has room now: ask without requiring " + pinned + ", or ask again after Retry-After"
	}
	return "no other host has room either: ask again after Retry-After, or use queue mode"
}

// placeOf is the caller's place among those who wait for the same; one that was refused
// holds none. Waiters for a host stand behind those of their kind alone: others pass.
func placeOf(a admission.Answer) int64 {
	switch {
	case a.Row.State != pool.Waiting:
		return 0
	case a.Row.WaitingFor == pool.ForHost:
		return a.Standing.SameHostless + 1
	}
	return a.Standing.Position
}

// explain is the one line that says whose no it is, with its numbers.
func (c call) explain(a admission.Answer) string {
	switch s := a.Standing; a.Code {
	case api.PoolFull, api.QueueFull, api.QueueTimeout:
		if s.Position == 0 { // nobody counted
			return ""
		}
		return fullBecause(a.Row.Pool, s)
	case api.TenantOverQuota:
		return "tenant " + a.Row.Tenant + " holds " + itoa(s.QuotaUse) + " of its " + itoa(s.QuotaLimit)
	case api.NoCapacity, api.HostPressure, api.HostStartsFull, api.HostDraining, api.NoHealthyAgents:
		return "needs " + needs(c.ask) + "; " + tallyLine(a.Tally)
	case api.Unavailable, api.HostSilent:
		if len(a.Tally) > 0 { // hosts were asked, and said nothing
			return "needs " + needs(c.ask) + "; " + tallyLine(a.Tally)
		}
	}
	return ""
}

func needs(a gate.Ask) string {
	ws, whole := gate.Need(a, gate.WorkingSet), gate.Need(a, gate.Committed)
	if ws == whole {
		return whole.String()
	}
	return ws.String() + " (" + whole.String() + " on a committed host)"
}

func tallyLine(t admission.Tally) string {
	if len(t) == 0 {
		return "no host was asked"
	}
	var parts []string
	for _, reason := range t.Reasons() {
		if reason != admission.Excluded {
			parts = append(parts, reason+": "+firstOf(t[reason]))
		}
	}
	return strings.Join(parts, "; ")
}

// firstOf names a few ids, and counts the rest.
func firstOf(ids []string) string {
	const few = 8
	if len(ids) <= few {
		return strings.Join(ids, ", ")
	}
	return strings.Join(ids[:few], ", ") + " and " + itoa(int64(len(ids)-few)) + " more"
}

// busyOf is how much of its pool is taken, and of how much: nil where it has no cap.
func busyOf(s pool.Standing) (busy, limit *int64) {
	if s.Position == 0 { // nobody counted
		return nil, nil
	}
	if s.Cap != pool.Unlimited {
		limit = &s.Cap
	}
	return &s.Busy, limit
}

// show is the row as the API shows it; no ticket, which only its own caller gets.
func (g *Gateway) show(r pool.Row) api.Admission {
	a := api.Admission{
		ID: r.ID, Key: r.Key, Consumer: r.Consumer, Tenant: r.Tenant, Class: r.Class, Pool: r.Pool,
		Template: r.Template, State: api.AdmissionState(r.State), Reason: r.Reason, Epoch: r.Epoch, Host: r.Host,
		MemoryMB: r.MemoryMB, CPU: float64(r.CPUMilli) / 1000, Labels: labelsOf(r.Labels), Stateful: r.Stateful,
		Audience: r.Audience, Instance: r.Instance,
		CreatedAt: createdAt(r).Wall(), AdmittedAt: wireTime(r.AdmittedAt), StartedAt: wireTime(r.RunningAt), EndedAt: wireTime(r.EndedAt),
	}
	if r.Host != "" {
		mode, enforcement := g.modesOf(r.Host)
		a.Mode = api.ChargeMode(mode.String())
		if enforcement == host.Shadow {
			a.Enforcement = api.EnforcementShadow
		}
		a.ChargeMB = needOf(g.askOf(r), mode)
		a.Endpoint = g.endpointOf(r.Host)
	}
	if g.poolInShadow(r.Pool) {
		a.Enforcement = api.EnforcementShadow
	}
	if r.Audience != "" {
		a.LiveUntil = wireTime(r.LiveUntil)
	}
	if r.State == pool.Waiting {
		a.Waiting = &api.Waiting{
			Code: api.WaitingCapacity, ID: r.ID, Key: r.Key, State: api.AdmissionState(r.State), Pool: r.Pool,
			WaitingFor: lackOf(r), QueuedForMS: g.queuedFor(r).Milliseconds(),
		}
	}
	return a
}

// standing shows the row with the charge that its host has it under: a reserve that was learned
// since, or a rule that was changed, is that of later ones. Of a host that does not answer at once
// it is what show says.
func (g *Gateway) standing(ctx context.Context, r pool.Row) api.Admission {
	out := g.show(r)
	link, last, silent := g.link(r.Host)
	if r.Host == "" || link == nil || silent {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, sweepWithin)
	defer cancel()
	p, err := link.Placed(ctx, r.ID)
	if err == nil && p.Epoch == r.Epoch && (p.Reserved || p.Running) {
		out.ChargeMB = needOf(p.Ask, last.Mode)
	}
	return out
}

func createdAt(r pool.Row) pool.Time {
	if r.QueuedAt != 0 {
		return r.QueuedAt
	}
	return r.PlacingAt
}

func labelsOf(canonical string) api.Labels {
	if canonical == "" {
		return nil
	}
	out := api.Labels{}
	for _, l := range wantedLabels(canonical) {
		out[l.Name] = l.Value
	}
	return out
}

// wantedLabels reads a row's labels, which are sorted by name.
func wantedLabels(canonical string) []gate.Label {
	var out []gate.Label
	for pair := range strings.SplitSeq(canonical, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			out = append(out, gate.Label{Name: name, Value: value})
		}
	}
	return out
}

func wireTime(t pool.Time) *time.Time {
	if t == 0 {
		return nil
	}
	at := t.Wall()
	return &at
}
