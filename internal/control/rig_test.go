package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// fleetDocument: a sandbox of class small is charged 128 MiB, one of class wide 1 GiB.
const fleetDocument = `
ceiling: none
pools:
  - {name: wide-open, cap: none}
  - {name: four, cap: 4, max_waiting: 3}
  - {name: one, cap: 1, max_waiting: 100}
  - {name: two, cap: 2, max_waiting: 100}
classes:
  - {name: small, pool: wide-open, memory: 512MiB, min_memory: 1MiB, max_memory: 64GiB, reserve_floor: 64MiB}
  - {name: large, pool: wide-open, memory: 4GiB, reserve_floor: 64MiB}
  - {name: base, pool: wide-open, memory: 1GiB, stateful: true}
  - {name: zoned, pool: wide-open, memory: 512MiB, reserve_floor: 64MiB, labels: {zone: b}}
  - {name: card, pool: wide-open, memory: 512MiB, reserve_floor: 64MiB, dimensions: {gpus: 1}}
  - {name: quad, pool: four, memory: 512MiB, reserve_floor: 64MiB}
  - {name: solo, pool: one, memory: 512MiB, reserve_floor: 64MiB}
  - {name: duo, pool: two, memory: 512MiB, reserve_floor: 64MiB}
  - {name: keeper, pool: one, memory: 512MiB, reserve_floor: 64MiB, hold_on_exit: true}
  - {name: giant, pool: two, memory: 3GiB, stateful: true}
default_quota: none
quotas: [{tenant: poor, limit: 1}]
`

// cloudDocument is the same with a pool that no host of ours is for.
var cloudDocument = strings.Replace(fleetDocument, "classes:\n", `  - {name: cloud, cap: 1, max_waiting: 100, placement: none}
classes:
  - {name: cell, pool: cloud, memory: 512MiB}
`, 1)

var (
	alice = &config.Consumer{Name: "alice", Roles: []config.Role{config.RoleConsumer}, Tenants: []string{"alice", "poor"}, PinHosts: true}
	bob   = &config.Consumer{Name: "bob", Roles: []config.Role{config.RoleConsumer}, Tenants: []string{"bob"}}
	root  = &config.Consumer{Name: "root", Roles: []config.Role{config.RoleAdmin}, Tenants: []string{config.AnyTenant}}
)

// rig is a gateway over the model store and fake links, which step real hosts, inside a
// bubble whose clock only sleeping moves.
type rig struct {
	t       *testing.T
	g       *control.Gateway
	memory  *storetest.Memory
	store   *storetest.FaultyStore
	metrics *prometheus.Registry
	hosts   []*fakeHost
	log     *safeBuffer
	keys    ticket.Keyring
	started time.Time
	options control.Options
	halt    func() // the gateway alone
	stop    func()
}

type safeBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// bubble runs a test over a rig and then proves that nothing is left: no slot, no memory.
func bubble(t *testing.T, hosts []*fakeHost, test func(*rig), plan ...storetest.Fault) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hosts, plan...)
		r.apply(fleetDocument)
		r.attach()
		test(r)
		r.stop()
		for _, h := range r.hosts {
			h.check()
		}
		if err := r.memory.Check(); err != nil {
			t.Error(err)
		}
	})
}

func newRig(t *testing.T, hosts []*fakeHost, plan ...storetest.Fault) *rig {
	r := &rig{t: t, hosts: hosts, started: time.Now(), metrics: prometheus.NewRegistry(), log: &safeBuffer{}}
	r.memory = storetest.NewMemory(func() pool.Time { return pool.Time(time.Now().UnixMilli()) })
	r.store = storetest.Faulty(r.memory, plan...)
	for i, h := range hosts {
		h.begin(t, int64(1000+i))
	}
	key, err := ticket.NewRoot("k1", ticket.Signing, []byte("0123456789abcdefghijklmnopqrstuv"))
	r.must(err)
	r.keys, err = ticket.NewKeyring(key)
	r.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	rnd := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	r.options = control.Options{
		Store: r.store, Keys: r.keys, Passage: admission.DefaultConfig(), Metrics: control.NewMetrics(r.metrics),
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now: func() time.Duration { return time.Since(r.started) }, Wall: time.Now, Local: root,
		Rand: func() uint64 {
			mu.Lock()
			defer mu.Unlock()
			return rnd.Uint64()
		},
	}
	r.g, err = control.New(r.options)
	r.must(err)
	r.metrics.MustRegister(r.g.Gauges())
	r.halt = sync.OnceFunc(r.g.Stop)
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		r.halt()
		cancel()
		for _, h := range hosts {
			h.cancel()
		}
		time.Sleep(2 * time.Minute) // what is detached ends by itself
		synctest.Wait()
	}
	t.Cleanup(r.stop)
	go r.g.SweepUntil(ctx)
	go r.g.PulseUntil(ctx)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// apply puts a document in force behind the gateway's back, as another replica would.
func (r *rig) apply(document string) {
	r.t.Helper()
	fleet, err := config.ParseFleet("test", []byte(document))
	r.must(err)
	c, err := r.memory.Config(r.t.Context())
	r.must(err)
	c.Document, c.By = document, "test"
	_, ok, err := r.memory.Apply(r.t.Context(), c, fleet.Settings())
	if !ok {
		r.t.Fatal("not applied")
	}
	r.must(err)
	r.must(r.g.Load(r.t.Context()))
}

// attach makes the hosts known and waits until they were heard.
func (r *rig) attach() {
	for _, h := range r.hosts {
		go r.g.Attach(h.ctx, h, h)
	}
	synctest.Wait()
}

// post is a create of alice's in refuse mode, unless changed.
func (r *rig) post(key, class string, change ...func(*api.AdmissionRequest)) (control.Outcome, error) {
	q := api.AdmissionRequest{Key: key, Class: class, Tenant: "alice"}
	for _, c := range change {
		c(&q)
	}
	return r.g.Admit(r.t.Context(), alice, q)
}

func queue(q *api.AdmissionRequest) { q.Mode = api.WaitModeQueue }

func poor(q *api.AdmissionRequest) { q.Tenant = "poor" }

func patience(d time.Duration) func(*api.AdmissionRequest) {
	return func(q *api.AdmissionRequest) {
		ms := d.Milliseconds()
		q.Mode, q.MaxQueueAgeMS = api.WaitModeQueue, &ms
	}
}

func pinned(id string, mode api.HostPinMode) func(*api.AdmissionRequest) {
	return func(q *api.AdmissionRequest) { q.Host = &api.HostPin{ID: id, Mode: mode} }
}

// admit is a post that must succeed.
func (r *rig) admit(key, class string, change ...func(*api.AdmissionRequest)) api.Admission {
	r.t.Helper()
	out, err := r.post(key, class, change...)
	if err != nil || out.Admission == nil || out.Admission.Ticket == "" {
		r.t.Fatalf("%s: %+v %v", key, out, err)
	}
	return *out.Admission
}

// poll is a long poll on its own goroutine.
func (r *rig) poll(ctx context.Context, key string, wait time.Duration) chan told {
	back := make(chan told, 1)
	go func() {
		out, err := r.g.Attempt(ctx, alice, key, wait)
		back <- said(out, err)
	}()
	return back
}

// told is an answer in one word, and when it came.
type told struct {
	word string
	at   time.Time
	out  control.Outcome
	err  error
}

// said puts an outcome into one word: a code, or yes, running, waiting, released, releasing.
func said(out control.Outcome, err error) told {
	w := told{at: time.Now(), out: out, err: err}
	refusal, refused := api.AsRefusal(err)
	switch {
	case refused:
		w.word = string(refusal.Code)
	case err != nil:
		w.word = err.Error()
	case out.Waiting != nil:
		w.word = "waiting"
	case out.Releasing:
		w.word = "releasing"
	case out.Admission.State == api.AdmissionStateAdmitted:
		w.word = "yes"
	default:
		w.word = string(out.Admission.State)
	}
	return w
}

func (r *rig) want(want string, out control.Outcome, err error) told {
	r.t.Helper()
	got := said(out, err)
	if got.word != want {
		r.t.Errorf("told %q (%v), want %q", got.word, err, want)
	}
	if refusal, ok := api.AsRefusal(err); ok && refusal.Code.Meaning().Status == 503 && (refusal.RetryAfter <= 0 || refusal.DecisionID == "") {
		r.t.Errorf("%s goes without an appointment or a name: %+v", refusal.Code, refusal)
	}
	return got
}

// row is an admission as the store has it.
func (r *rig) row(key string) pool.Row {
	r.t.Helper()
	row, _, err := r.memory.Get(r.t.Context(), "alice", key)
	r.must(err)
	return row
}

// held is what the store and the hosts hold together.
func (r *rig) held() string {
	r.t.Helper()
	rows, err := r.memory.List(context.Background(), control.Filter{States: []pool.State{pool.Placing, pool.Admitted, pool.Running, pool.Releasing}})
	r.must(err)
	var reserved, sandboxes int
	for _, h := range r.hosts {
		v := h.view()
		reserved, sandboxes = reserved+v.Reservations, sandboxes+len(v.Sandboxes)
	}
	return fmt.Sprintf("slots %d, reservations %d, sandboxes %d", len(rows), reserved, sandboxes)
}

func (r *rig) wantHeld(slots, reservations, sandboxes int) {
	r.t.Helper()
	if got, want := r.held(), fmt.Sprintf("slots %d, reservations %d, sandboxes %d", slots, reservations, sandboxes); got != want {
		r.t.Errorf("held: %s; want %s", got, want)
	}
}

// boot redeems a ticket at its host and tracks it, as an orchestrator does.
func (r *rig) boot(a api.Admission) host.Denial {
	r.t.Helper()
	keys, err := r.keys.Audience(a.Host)
	r.must(err)
	claims, err := keys.Verify(ticket.Text(a.Ticket), ticket.Expect{Audience: a.Host})
	r.must(err)
	h := r.host(a.Host)
	ref := host.Ref{ID: claims.AdmissionID, Epoch: claims.Epoch}
	answer := h.step(host.Redeem{ID: ref.ID, Epoch: ref.Epoch, Identity: host.Identity{Consumer: claims.Consumer, Key: claims.Key, Pool: claims.Pool, Class: claims.Class}})
	if answer.Denial == "" {
		h.step(host.Track{ID: ref.ID, Epoch: ref.Epoch, Process: host.Process{Pid: 1}})
	}
	return answer.Denial
}

func (r *rig) host(id string) *fakeHost {
	i := slices.IndexFunc(r.hosts, func(h *fakeHost) bool { return h.id == id })
	if i < 0 {
		r.t.Fatalf("no host %q", id)
	}
	return r.hosts[i]
}

// fakeHost is a link and a feed without an agent: it steps a real host.Host under a lock,
// and goes wrong by plan.
type fakeHost struct {
	id     string
	budget gate.Bytes
	config func(*host.Config)
	stays  bool // a sandbox that is told to stop does not

	t       testing.TB
	started time.Time
	ctx     context.Context
	cancel  context.CancelFunc

	mu     sync.Mutex // guards what follows
	h      *host.Host
	news   host.News
	some   chan struct{}     // holds one token when there is news
	deaf   bool              // answers nothing and says nothing
	mute   bool              // loses ends and tracks on the way
	strays []host.Stray      // run in no ledger's name
	quiet  bool              // says nothing unasked
	lag    time.Duration     // of its verdicts
	also   []func(host.News) // hear what it says unasked
	plan   map[string]string
	asked  map[string]int // kind of event, or Verdict -> times
}

func oneHost(mib int64) []*fakeHost { return []*fakeHost{{id: "h1", budget: gate.FromMiB(mib)}} }

func twoHosts(mib int64) []*fakeHost {
	return append(oneHost(mib), &fakeHost{id: "h2", budget: gate.FromMiB(mib)})
}

func (h *fakeHost) begin(t testing.TB, incarnation int64) {
	h.t, h.started = t, time.Now()
	h.ctx, h.cancel = context.WithCancel(t.Context())
	h.some, h.plan, h.asked = make(chan struct{}, 1), map[string]string{}, map[string]int{}
	h.restart(incarnation)
	go h.tick()
}

// restart loses whatever the host knew.
func (h *fakeHost) restart(incarnation int64) {
	cfg := host.DefaultConfig(h.id, 64)
	cfg.Headroom = 256 * gate.MiB
	if h.config != nil {
		h.config(&cfg)
	}
	h.mu.Lock()
	h.h = host.New(cfg, incarnation)
	h.mu.Unlock()
	h.sample()
}

func (h *fakeHost) sample() {
	h.mu.Lock()
	budget := h.budget
	h.mu.Unlock()
	if budget > 0 {
		h.step(host.Sample{Limits: []gate.Limit{{Name: "machine", Size: budget}}, Full: true})
	}
}

// tick lets time pass, as the agent's timer does.
func (h *fakeHost) tick() {
	for {
		h.mu.Lock()
		due := h.h.Due() - time.Since(h.started)
		h.mu.Unlock()
		select {
		case <-time.After(max(due, time.Millisecond)):
			h.step(host.Tick{})
		case <-h.ctx.Done():
			return
		}
	}
}

// step is an event that needs no way here.
func (h *fakeHost) step(ev host.Event) host.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	fx := h.h.Step(time.Since(h.started)+time.Second, ev)
	if err := h.h.CheckInvariants(); err != nil {
		h.t.Errorf("host %s after %#v: %v", h.id, ev, err)
	}
	answer, stops := fx.Answer, slices.Clone(fx.Stops)
	n := host.News{Verdict: fx.Answer.Verdict, Ends: slices.Clone(fx.Ends), Reopens: slices.Clone(fx.Reopens)}
	if e, ok := ev.(host.Track); ok && answer.Denial == "" {
		n.Tracks = []host.Ref{{ID: e.ID, Epoch: e.Epoch}}
	}
	if fx.Publish || len(n.Ends)+len(n.Reopens)+len(n.Tracks) > 0 {
		h.tell(n)
	}
	if !h.stays {
		for _, ref := range stops {
			go h.step(host.Done{ID: ref.ID, Epoch: ref.Epoch, Reason: "stopped"})
		}
	}
	return answer
}

func (h *fakeHost) tell(n host.News) {
	if h.mute {
		n = host.News{Verdict: n.Verdict}
	}
	h.news.Add(n)
	if h.deaf || h.quiet {
		return
	}
	for _, hear := range h.also {
		hear(n)
	}
	select {
	case h.some <- struct{}{}:
	default:
	}
}

func (h *fakeHost) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *fakeHost) view() host.View {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.h.View()
}

func (h *fakeHost) calls(kind string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[kind]
}

func (h *fakeHost) check() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.h.CheckInvariants(); err != nil {
		h.t.Error(err)
	}
}

// fail plans what happens to the next event of a kind: "failed" (it does not arrive),
// "lost" (its answer does not), "late" (it arrives 5 s later, when nobody waits).
func (h *fakeHost) fail(kind, how string) { h.set(func() { h.plan[kind] = how }) }

var errLost = errors.New("connection lost")

// Do implements control.Link.
func (h *fakeHost) Do(ctx context.Context, ev host.Event) (host.Answer, error) {
	kind := strings.TrimPrefix(reflect.TypeOf(ev).String(), "host.")
	h.mu.Lock()
	how, deaf := h.plan[kind], h.deaf
	delete(h.plan, kind)
	h.asked[kind]++
	h.mu.Unlock()
	if deaf {
		how = "deaf"
	}
	switch how {
	case "failed":
		return host.Answer{}, errLost
	case "lost":
		h.step(ev)
		return host.Answer{}, errLost
	case "late":
		time.AfterFunc(5*time.Second, func() { h.step(ev) })
		fallthrough
	case "deaf":
		<-ctx.Done()
		return host.Answer{}, ctx.Err()
	}
	return h.step(ev), nil
}

// ID implements control.Link.
func (h *fakeHost) ID() string { return h.id }

func ask[T any](ctx context.Context, h *fakeHost, kind string, look func(*host.Host) T) (T, error) {
	h.mu.Lock()
	h.asked[kind]++
	if !h.deaf {
		defer h.mu.Unlock()
		return look(h.h), nil
	}
	h.mu.Unlock()
	<-ctx.Done()
	var none T
	return none, ctx.Err()
}

// Verdict implements control.Link.
func (h *fakeHost) Verdict(ctx context.Context) (host.Verdict, error) {
	h.mu.Lock()
	lag := h.lag
	h.mu.Unlock()
	time.Sleep(lag)
	return ask(ctx, h, "Verdict", (*host.Host).Verdict)
}

// View implements control.Link.
func (h *fakeHost) View(ctx context.Context) (host.View, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return ask(ctx, h, "View", (*host.Host).View)
}

// Holding implements control.Link.
func (h *fakeHost) Holding(ctx context.Context) (host.Held, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	held, err := ask(ctx, h, "Holding", (*host.Host).Held)
	h.mu.Lock()
	defer h.mu.Unlock()
	held.OutOfGate = slices.Clone(h.strays)
	return held, err
}

// Clear implements control.Link.
func (h *fakeHost) Clear(_ context.Context, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.strays = slices.DeleteFunc(h.strays, func(s host.Stray) bool { return s.ID == id })
	return nil
}

// Holds implements control.Link.
func (h *fakeHost) Holds(ctx context.Context, ref host.Ref) (reserved, running bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	both, err := ask(ctx, h, "Holds", func(h *host.Host) [2]bool {
		reserved, running := h.Holds(ref.ID, ref.Epoch)
		return [2]bool{reserved, running}
	})
	return both[0], both[1], err
}

// Placed implements control.Link.
func (h *fakeHost) Placed(ctx context.Context, id string) (host.Placed, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return ask(ctx, h, "Placed", func(h *host.Host) host.Placed { return h.Placed(id) })
}

// Next implements control.Feed.
func (h *fakeHost) Next(ctx context.Context) (host.News, error) {
	select {
	case <-h.some:
	case <-ctx.Done():
		return host.News{}, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.news
	h.news = host.News{}
	return n, nil
}

// done ends a sandbox from inside.
func (h *fakeHost) done(id string, epoch int64) {
	h.step(host.Done{ID: id, Epoch: epoch, Reason: "exit 0"})
}
