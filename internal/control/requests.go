package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
	"github.com/plimsoll-project/plimsoll/table"
)

// Outcome is what a caller is told when it is not refused: an admission, or its place.
type Outcome struct {
	Admission *api.Admission
	New       bool // admitted by this call
	Waiting   *api.Waiting
	Releasing bool
}

// LongestPoll is how long one attempt is held at most.
const LongestPoll = 30 * time.Second

// DefaultQueueAge is how long a place in the line is kept where the request does not say.
const DefaultQueueAge = 10 * time.Minute

const longestQueueAge = 24 * time.Hour

// Admit is POST /v1/admissions.
func (g *Gateway) Admit(ctx context.Context, who *config.Consumer, q api.AdmissionRequest) (Outcome, error) {
	d, c, err := g.prepare(who, &q)
	if err != nil {
		return Outcome{}, err
	}
	return c.finish(ctx, g.drive(ctx, d.req, d.pin))
}

// prepare judges an ask before anything is claimed.
func (g *Gateway) prepare(who *config.Consumer, q *api.AdmissionRequest) (driving, call, error) {
	req, pin, err := g.request(who, *q)
	if err != nil {
		a := about{class: q.Class, key: q.Key, tenant: q.Tenant}
		if r, ok := api.AsRefusal(err); ok {
			a.facts = g.misasked(r, who, q)
		}
		return driving{}, call{}, g.refusedFor(err, who, &a)
	}
	d := driving{gateway: g, req: req, pin: pin}
	if !g.withoutHosts(req.Claim.Pool) {
		err = g.possible(&req.Ask, &pin)
	}
	if err != nil {
		a := about{class: q.Class, pool: req.Claim.Pool, key: q.Key, tenant: req.Claim.Contents.Tenant}
		if r, ok := api.AsRefusal(err); ok {
			a.facts, a.evidence = g.impossible(r, who, q, &d)
		}
		return driving{}, call{}, g.refusedFor(err, who, &a)
	}
	c := call{gateway: g, who: who, ask: req.Ask, key: q.Key, receipt: q.Receipt, request: q, claim: req.Claim, pin: pin, began: g.Now()}
	return d, c, nil
}

// request turns the wire's ask into a passage's, judged against the class and the caller.
func (g *Gateway) request(who *config.Consumer, q api.AdmissionRequest) (admission.Request, table.PickOptions, error) {
	var none admission.Request
	fleet := g.Fleet()
	if fleet == nil {
		return none, table.PickOptions{}, api.Refuse(api.Unavailable, "no configuration is in force yet; apply one with plimsoll config apply")
	}
	class, ok := fleet.Class(q.Class)
	switch {
	case !isName(q.Class):
		return none, table.PickOptions{}, api.Refuse(api.InvalidRequest, "class: write 1 to 128 of A-Z a-z 0-9 . _ : -")
	case !ok:
		return none, table.PickOptions{}, api.Refuse(api.UnknownClass, "class %q; the configuration has %s", q.Class, strings.Join(classNames(fleet), ", "))
	}
	ask, contents, err := class.Ask(q.MemoryMB, q.CPU, q.Template, q.Labels)
	if err != nil {
		return none, table.PickOptions{}, err
	}
	g.teach(class, &ask)
	pin, err := pinOf(who, q.Host)
	if err != nil {
		return none, pin, err
	}
	contents.Host, contents.Prefer = cmp.Or(pin.Require, pin.Prefer), pin.Prefer != ""
	if contents.Tenant, err = who.Tenant(q.Tenant); err != nil {
		return none, pin, err
	}
	claim, err := claimOf(who, q)
	claim.Contents, claim.Pool = contents, class.Pool
	req := admission.Request{Claim: claim, Ask: ask, ByHost: class.Record == config.ByHost}
	if err == nil {
		err = g.recordable(&req)
	}
	return req, pin, err
}

// isName says whether the contract takes a text as a key and as a name.
func isName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 128
}

// longestReceipt is the contract's; ours are far shorter.
const longestReceipt = 1024

func claimOf(who *config.Consumer, q api.AdmissionRequest) (pool.Claim, error) {
	switch {
	case !isName(q.Key):
		return pool.Claim{}, api.Refuse(api.InvalidRequest, "key: write 1 to 128 of A-Z a-z 0-9 . _ : -")
	case q.Mode != "" && !q.Mode.Valid():
		return pool.Claim{}, api.Refuse(api.InvalidRequest, "mode: %q is neither refuse nor queue", q.Mode)
	case len(q.Receipt) > longestReceipt:
		return pool.Claim{}, api.Refuse(api.InvalidRequest, "receipt: longer than any that was given out")
	}
	c := pool.Claim{ID: newID("adm"), Consumer: who.Name, Key: q.Key, Mode: pool.Mode(cmp.Or(q.Mode, api.WaitModeRefuse)), MaxQueueAge: DefaultQueueAge}
	if q.MaxQueueAgeMS == nil {
		return c, nil
	}
	if ms := *q.MaxQueueAgeMS; ms < 1 || ms > longestQueueAge.Milliseconds() {
		return c, api.Refuse(api.InvalidRequest, "max_queue_age_ms: %d is not between 1 and %d", ms, longestQueueAge.Milliseconds())
	}
	c.MaxQueueAge = time.Duration(*q.MaxQueueAgeMS) * time.Millisecond
	if c.Mode != pool.Queue {
		return c, api.Refuse(api.InvalidRequest, "max_queue_age_ms: only in mode queue")
	}
	return c, nil
}

func pinOf(who *config.Consumer, pin *api.HostPin) (table.PickOptions, error) {
	switch {
	case pin == nil:
		return table.PickOptions{}, nil
	case !isName(pin.ID):
		return table.PickOptions{}, api.Refuse(api.InvalidRequest, "host.id: write 1 to 128 of A-Z a-z 0-9 . _ : -")
	case !pin.Mode.Valid():
		return table.PickOptions{}, api.Refuse(api.InvalidRequest, "host.mode: %q is neither require nor prefer", pin.Mode)
	case !who.PinHosts:
		return table.PickOptions{}, api.Refuse(api.Forbidden, "host: consumer %s may not pin hosts; pin_hosts in the configuration allows it", who.Name)
	case pin.Mode == api.HostPinModePrefer:
		return table.PickOptions{Prefer: pin.ID}, nil
	}
	return table.PickOptions{Require: pin.ID}, nil
}

// withoutHosts says whether what a pool admits is booted by a substrate, and not by hosts of ours.
func (g *Gateway) withoutHosts(name string) bool {
	p, ok := g.Fleet().Pool(name)
	return ok && p.Placement == config.NoHost
}

// possible refuses what no registered host could ever hold, silent and cordoned ones
// included, before anything is claimed. It never queues. A host that was not measured yet
// could hold anything, so far as is known: a never must not come from ignorance.
func (g *Gateway) possible(ask *gate.Ask, pin *table.PickOptions) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.table.Lookup(pin.Require); pin.Require != "" && !known {
		return api.Refuse(api.Infeasible, "host %s is not registered", pin.Require)
	}
	if g.table.Len() == 0 {
		return api.Refuse(api.NoHealthyAgents, "no host agent is registered")
	}
	if !g.table.Feasible(ask) && !g.anyUnmeasured() {
		return api.Refuse(api.Infeasible, "%s of memory, its labels or dimensions are more than any registered host could hold, were it empty", ask.Memory)
	}
	return nil
}

// anyUnmeasured says whether some host has not told its limits yet; g.mu must be held.
func (g *Gateway) anyUnmeasured() bool {
	for id, a := range g.hosts {
		if a.verdict.Limit == 0 && g.known.hosts[id].Bounds.MaxAsk == 0 && !g.isBuried(id) {
			return true
		}
	}
	for id, h := range g.known.hosts {
		if h.Bounds.MaxAsk == 0 && g.hosts[id] == nil && h.State != registry.Buried {
			return true
		}
	}
	return false
}

// Attempt is POST …/attempt: it tries at once, and then again whenever it has a turn, for
// as long as the caller waits.
func (g *Gateway) Attempt(ctx context.Context, who *config.Consumer, key string, wait time.Duration) (Outcome, error) {
	row, err := g.find(ctx, who, key)
	if err != nil {
		return Outcome{}, err
	}
	req, pin, c := g.again(who, row)
	req.Claim.Attempt = true
	deadline := g.Now() + min(wait, LongestPoll)
	me := g.wakes.join(row)
	defer g.wakes.leave(me)
	var had *turn
	for {
		held := deadline > g.Now()
		req.Claim.Present = 0
		if held {
			req.Claim.Present = pool.PresentFor
		}
		answer := g.drive(ctx, req, pin)
		if answer.Kind != admission.Wait || !held {
			return c.finish(ctx, answer)
		}
		g.wakes.failed(me, answer.Row.WaitingFor, answer.Standing.Free() > 0, had)
		had = g.hold(ctx, me, deadline)
		if ctx.Err() != nil {
			g.hangUp(ctx, row.ID)
			return Outcome{}, ctx.Err() // nobody was refused: nobody is there
		}
		if g.stopped() {
			g.hangUp(ctx, row.ID)
			return Outcome{}, g.refusedFor(api.Refuse(api.Unavailable, "this replica is stopping; the place is kept, attempt at another address"), who, aboutRow(&row))
		}
	}
}

// PresentEvery is how often a held poll says so; a waiter for a host tries that often too,
// since room can come without any news of it here.
const PresentEvery = 2 * time.Second

// hold waits for a reason to try again, and returns the turn if that is the reason.
func (g *Gateway) hold(ctx context.Context, w *waiter, deadline time.Duration) *turn {
	t := time.NewTimer(min(PresentEvery, max(deadline-g.Now(), 0)))
	defer t.Stop()
	select {
	case mine := <-w.turn:
		return &mine
	case <-t.C:
	case <-ctx.Done():
	case <-g.stopping:
	}
	return nil
}

func (g *Gateway) stopped() bool {
	select {
	case <-g.stopping:
		return true
	default:
		return false
	}
}

// hangUp clears the waiter's presence, detached from the caller that is gone.
func (g *Gateway) hangUp(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedFor)
	defer cancel()
	if _, err := g.Store.Attend(ctx, id, 0); err != nil {
		g.Log.Warn("a hang-up was not written; its presence ends by itself", "id", id, "err", err)
	}
}

// Heartbeat keeps an unbooted admission and mints its ticket anew.
func (g *Gateway) Heartbeat(ctx context.Context, who *config.Consumer, key string) (Outcome, error) {
	row, err := g.find(ctx, who, key)
	if err != nil {
		return Outcome{}, err
	}
	return g.keep(ctx, who, row)
}

func (g *Gateway) keep(ctx context.Context, who *config.Consumer, row pool.Row) (Outcome, error) {
	if byHost(&row) { // another replica may have placed it
		g.own.with(func(rows *admission.Book) { rows.Adopt(row) })
	}
	req, pin, c := g.again(who, row)
	if row.State != pool.Admitted && row.State != pool.Running {
		return c.finish(ctx, admission.Standing(row))
	}
	req.Claim.ID, req.Keep = row.ID, true
	return c.finish(ctx, g.drive(ctx, req, pin))
}

// again rebuilds the request of a row: its ask is a function of its contents and class.
func (g *Gateway) again(who *config.Consumer, row pool.Row) (admission.Request, table.PickOptions, call) {
	ask := g.askOf(row)
	pin := table.PickOptions{Require: row.Contents.Host}
	if row.Prefer {
		pin = table.PickOptions{Prefer: row.Contents.Host}
	}
	claim := pool.Claim{Consumer: row.Consumer, Key: row.Key, Contents: row.Contents, Pool: row.Pool, Mode: row.Mode}
	req := admission.Request{Claim: claim, Ask: ask, ByHost: byHost(&row)}
	return req, pin, call{gateway: g, who: who, ask: ask, key: row.Key, claim: claim, pin: pin, began: g.Now()}
}

// askOf is what a row asks of a host. Its class may have left the configuration since: then
// its reserve is the whole, which is never too little.
func (g *Gateway) askOf(row pool.Row) gate.Ask {
	if fleet := g.Fleet(); fleet != nil {
		if class, ok := fleet.Class(row.Class); ok {
			ask := class.AskOf(row.Contents)
			g.teach(class, &ask)
			return ask
		}
	}
	return gate.Ask{
		Class: row.Class, Template: row.Template, Memory: gate.FromMiB(row.MemoryMB),
		CPUMilli: row.CPUMilli, Stateful: row.Stateful, HoldOnExit: row.HoldOnExit, Rule: gate.ReserveRule{Permille: 1000}, Labels: wantedLabels(row.Labels),
	}
}

// Get returns one of the caller's admissions.
func (g *Gateway) Get(ctx context.Context, who *config.Consumer, key string) (api.Admission, error) {
	row, err := g.find(ctx, who, key)
	if err != nil {
		return api.Admission{}, err
	}
	if byHost(&row) && row.ID != "" { // another replica may have given it back
		if placed, at, err := g.placed(ctx, row.ID); err == nil && placed.Epoch != 0 {
			row = g.rowOf(row.ID, at, &placed, row)
		}
	}
	return g.standing(ctx, row), nil
}

// find looks a key of the caller up.
func (g *Gateway) find(ctx context.Context, who *config.Consumer, key string) (pool.Row, error) {
	if row, known := g.own.get(who.Name, key); known {
		return row, nil
	}
	row, found, err := g.Store.Get(ctx, who.Name, key)
	if !found || err != nil {
		if row, known := g.keyElsewhere(ctx, who.Name, key); known {
			return row, nil
		}
	}
	return g.found(who, &about{key: key}, row, found, err, "no admission of consumer "+who.Name+" has the key "+key)
}

// unread says in the log that the store was not read. A caller that hung up is no fault of it.
func (g *Gateway) unread(err error) {
	level := slog.LevelError
	if errors.Is(err, context.Canceled) {
		level = slog.LevelDebug
	}
	g.Log.Log(context.Background(), level, "store not read", "err", err)
}

func (g *Gateway) found(who *config.Consumer, a *about, row pool.Row, found bool, err error, missing string) (pool.Row, error) {
	switch {
	case err != nil:
		g.unread(err)
		return row, g.refusedFor(api.Refuse(api.Unavailable, "the store could not be read"), who, a)
	case !found:
		return row, g.refusedFor(api.Refuse(api.NotFound, "%s", missing), who, a)
	}
	return row, nil
}

// GetByID returns any admission that the caller may see.
func (g *Gateway) GetByID(ctx context.Context, who *config.Consumer, id string) (api.Admission, error) {
	row, err := g.byID(ctx, who, id)
	if err != nil {
		return api.Admission{}, err
	}
	return g.standing(ctx, row), nil
}

// byID hides what is not the caller's: whether it exists is nobody else's business.
func (g *Gateway) byID(ctx context.Context, who *config.Consumer, id string) (pool.Row, error) {
	if _, ok := admission.ByHost(id); ok {
		return g.askRecorder(ctx, who, id)
	}
	row, found, err := g.Store.ByID(ctx, id)
	if found && row.Consumer != who.Name && !who.Has(config.RoleOperator) {
		found = false
	}
	return g.found(who, &about{}, row, found, err, "no admission has the id "+id)
}

// Release gives an admission back; with an epoch, zero for none, only that one, and nothing that its key
// stands for by now.
func (g *Gateway) Release(ctx context.Context, who *config.Consumer, key string, epoch int64) (Outcome, error) {
	row, err := g.find(ctx, who, key)
	if err != nil {
		return Outcome{}, err
	}
	return g.release(ctx, who, row, epoch)
}

// ReleaseByID gives any admission back that the caller may see.
func (g *Gateway) ReleaseByID(ctx context.Context, who *config.Consumer, id string, epoch int64) (Outcome, error) {
	row, err := g.byID(ctx, who, id)
	if err != nil {
		return Outcome{}, err
	}
	return g.release(ctx, who, row, epoch)
}

func (g *Gateway) release(ctx context.Context, who *config.Consumer, row pool.Row, epoch int64) (Outcome, error) {
	if epoch < 0 {
		return Outcome{}, api.Refuse(api.InvalidRequest, "epoch: %d is below 1", epoch)
	}
	if epoch != 0 && (epoch != row.Epoch || row.State == pool.Waiting || row.State == pool.Placing) {
		return Outcome{}, g.refusedFor(api.Refuse(api.NotFound, "admission %s is over at epoch %d; its key was asked for anew since", row.ID, epoch), who, aboutRow(&row))
	}
	_, _, c := g.again(who, row)
	answer := g.depart(ctx, row)
	g.unstand(ctx, row)
	return c.finish(ctx, answer)
}

func classNames(f *config.Fleet) []string {
	var names []string
	for _, c := range f.Classes {
		names = append(names, c.Name)
	}
	return names
}

func newID(prefix string) string {
	var random [9]byte
	rand.Read(random[:])
	var b [32]byte
	return string(hex.AppendEncode(append(append(b[:0], prefix...), '-'), random[:]))
}
