package control

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/explain"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// This file notes each decision where it is made, with what it rests on.

// about is what a refusal is about, as far as it is known where it is made.
type about struct {
	class, pool, key, tenant string
	row                      *pool.Row      // the admission, if there is one
	facts                    *explain.Facts // nil: the code says it all
	evidence                 *Evidence
	held                     hint.Receipt // that the caller brought
}

func aboutRow(r *pool.Row) *about {
	return &about{class: r.Class, pool: r.Pool, key: r.Key, tenant: r.Tenant, row: r}
}

// decide notes a no.
func (g *Gateway) decide(r *api.Refusal, who *config.Consumer, a *about) {
	now := g.storeNow()
	if who == nil && !g.keeper.stranger(now) {
		return
	}
	t := api.Decision{
		ID: r.DecisionID, At: now.Wall(), Replica: g.Self,
		Key: a.key, Tenant: a.tenant,
		Outcome: api.DecisionOutcomeRefused, Code: r.Code, Scope: r.WhoseNo(), Detail: r.Detail,
		Told: api.DecisionTold{Status: int64(r.Code.Meaning().Status), Position: r.Figures.Position},
	}
	appointed(&t, now, r.RetryAfter)
	if who != nil {
		t.Consumer = who.Name
	}
	if a.facts == nil {
		a.facts = g.bareFacts(r, who)
	}
	a.facts.RetryAfter = r.RetryAfter
	t.Class, t.Pool = cmp.Or(a.class, a.facts.Request.Class), cmp.Or(a.pool, a.facts.Pool.Name)
	if a.row != nil && a.row.State != "" && a.row.Consumer == t.Consumer { // else it left nothing behind
		t.AdmissionID, t.Epoch, t.Host = a.row.ID, a.row.Epoch, a.row.Host
	}
	firstOfAll(&t, a.held, a.row)
	if t.FirstRefusedAt == nil && r.Receipt != "" {
		t.FirstRefusedAt, t.Attempts = &t.At, 1
	} else if r.Receipt != "" {
		t.Attempts++
	}
	g.note(&Decision{Told: t, Facts: a.facts, Evidence: a.evidence})
}

// note hands a decision to whoever writes it.
func (g *Gateway) note(d *Decision) {
	if d.Facts != nil {
		d.Told.Ask = askOfFacts(d.Facts)
	}
	if !g.keeper.put(d) {
		g.Metrics.DecisionsDropped.Inc()
	}
}

// appointed writes down when a caller was told to come back.
func appointed(t *api.Decision, now pool.Time, in time.Duration) {
	if in <= 0 {
		return
	}
	at := now.Add(in).Wall()
	t.Told.RetryAfterMS, t.Told.RetryAt = hint.Millis(in), &at
}

// firstOfAll is when a request was first told no, or took its place.
func firstOfAll(t *api.Decision, held hint.Receipt, row *pool.Row) {
	switch {
	case !held.First.IsZero():
		t.FirstRefusedAt, t.Attempts = &held.First, int64(held.Refusals)
	case row != nil && row.Waited && row.QueuedAt != 0:
		t.FirstRefusedAt = wireTime(row.QueuedAt)
	}
}

// queued notes that a caller was told its place.
func (c call) queued(a *admission.Answer, w *api.Waiting) {
	now := c.gateway.storeNow()
	t := c.toldOf(w.DecisionID, now, &a.Row)
	t.Outcome, t.Code, t.Scope = api.DecisionOutcomeWaiting, w.Code, w.Code.Meaning().Scope
	t.Told = api.DecisionTold{Status: int64(w.Code.Meaning().Status), Position: w.Position, WaitingFor: w.WaitingFor}
	appointed(&t, now, time.Duration(w.RetryAfterMS)*time.Millisecond)
	firstOfAll(&t, c.held(a.Row.Key), &a.Row)
	facts := c.facts(a, &api.Refusal{Code: w.Code, RetryAfter: time.Duration(w.RetryAfterMS) * time.Millisecond})
	facts.WaitingFor = string(w.WaitingFor)
	c.gateway.note(&Decision{Told: t, Facts: facts, Evidence: c.evidence(a)})
}

// granted notes a yes that ended a wait. Any other is told by the admission's own row, and the store
// keeps it before that becomes another's.
func (c call) granted(id string, r *pool.Row) {
	waited, ok := c.waitedFor(*r)
	if !ok {
		return
	}
	d := YesOf(r)
	d.Told.ID, d.Told.Replica = id, c.gateway.Self
	firstOfAll(&d.Told, c.held(r.Key), r)
	ms := waited.Milliseconds()
	d.Told.ToSuccessMS = &ms
	c.gateway.note(d)
}

// toldOf is what is known of an answer to this call.
func (c call) toldOf(id string, at pool.Time, r *pool.Row) api.Decision {
	return api.Decision{
		ID: id, At: at.Wall(), Replica: c.gateway.Self, Consumer: c.who.Name, Key: cmp.Or(r.Key, c.key),
		Class: r.Class, Pool: r.Pool, Tenant: r.Tenant, AdmissionID: r.ID, Epoch: r.Epoch, Host: r.Host,
	}
}

// yesPrefix begins the name of a decision that follows from its admission.
const yesPrefix = "yes-"

// yesID names the yes of an admission: any replica that gives it again gives it the same name.
func yesID(r *pool.Row) string { return yesPrefix + itoa(r.Epoch) + "-" + r.ID }

// parseYesID finds the admission and its epoch in the name of a yes.
func parseYesID(id string) (admission string, epoch int64, ok bool) {
	rest, ok := strings.CutPrefix(id, yesPrefix)
	if !ok {
		return "", 0, false
	}
	number, admission, ok := strings.Cut(rest, "-")
	epoch, err := strconv.ParseInt(number, 10, 64)
	return admission, epoch, ok && err == nil && epoch > 0
}

// Supersedes says whether a row that was another before tells of that one's yes no more.
func Supersedes(r, before *pool.Row) bool {
	return before.AdmittedAt != 0 && before.Epoch != 0 && (r.Epoch != before.Epoch || r.AdmittedAt == 0)
}

// YesOf is the yes that a row tells of. Who gave it is not in the row.
func YesOf(r *pool.Row) *Decision {
	t := api.Decision{
		ID: yesID(r), At: cmp.Or(r.AdmittedAt, r.PlacingAt).Wall(), Consumer: r.Consumer, Key: r.Key, Class: r.Class, Pool: r.Pool, Tenant: r.Tenant,
		Outcome: api.DecisionOutcomeAdmitted, Told: api.DecisionTold{Status: 201}, AdmissionID: r.ID, Epoch: r.Epoch, Host: r.Host,
		Ask: askOfContents(&r.Contents, r.Mode),
	}
	return &Decision{Told: t}
}

func askOfContents(c *pool.Contents, m pool.Mode) *api.DecisionAsk {
	return &api.DecisionAsk{
		MemoryMB: c.MemoryMB, CPU: float64(c.CPUMilli) / 1000, Template: c.Template, Labels: labelsOf(c.Labels),
		Stateful: c.Stateful, Mode: api.WaitMode(m), Host: pinOfContents(c),
	}
}

func pinOfContents(c *pool.Contents) *api.HostPin {
	switch {
	case c.Host == "":
		return nil
	case c.Prefer:
		return &api.HostPin{ID: c.Host, Mode: api.HostPinModePrefer}
	}
	return &api.HostPin{ID: c.Host, Mode: api.HostPinModeRequire}
}

// askOfFacts is what was asked for, nil where it came to no ask.
func askOfFacts(f *explain.Facts) *api.DecisionAsk {
	if f.Ask.Class == "" {
		return nil
	}
	return &api.DecisionAsk{
		MemoryMB: f.Ask.Memory.CeilMiB(), NeedMB: gate.Need(f.Ask, gate.WorkingSet).CeilMiB(), CPU: float64(f.Ask.CPUMilli) / 1000,
		Template: f.Ask.Template, Labels: f.Request.Labels, Stateful: f.Ask.Stateful, Mode: f.Request.Mode, Host: f.Request.Host,
	}
}

// nearest is what the hosts nearest to an ask had when somebody looked.
type nearest struct {
	at    time.Duration
	rooms []table.Room
}

const (
	nearHosts = 8
	mostNears = 256 // kinds of asks of which that is known; then it is looked up anew
)

// near finds the hosts that come nearest to an ask, as they were at some moment since then: it is
// looked up once for all who were under way.
func (g *Gateway) near(kind string, ask *gate.Ask, pin *table.PickOptions, since time.Duration) []table.Room {
	kind += "\x00" + pin.Require + "\x00" + gate.Need(*ask, gate.WorkingSet).String() + "\x00" + ask.Memory.String()
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.nears[kind]; n != nil && n.at >= since {
		return n.rooms
	}
	if len(g.nears) >= mostNears {
		clear(g.nears)
	}
	now := g.Now()
	n := &nearest{at: now, rooms: g.table.Near(now, ask, pin, nearHosts)}
	g.nears[kind] = n
	return n.rooms
}
