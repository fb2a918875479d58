package control_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
	"github.com/prometheus/client_golang/prometheus"
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
	go r.g.KeepUntil(ctx)
	go r.g.CompareUntil(ctx)
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
