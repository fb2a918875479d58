package web_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/sqlite"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/internal/web"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// The tokens are the names of their consumers, doubled.
const fleetDocument = `
ceiling: 50
pools:
  - {name: open, cap: 40, max_waiting: 10}
  - {name: one, cap: 1, max_waiting: 1}
classes:
  - {name: small, pool: open, memory: 512MiB, min_memory: 128MiB, max_memory: 64GiB, min_cpu: 0, max_cpu: 64, reserve_floor: 64MiB}
  - {name: large, pool: open, memory: 3GiB, stateful: true}
  - {name: solo, pool: one, memory: 512MiB, reserve_floor: 64MiB}
default_quota: none
quotas: [{tenant: poor, limit: 1}]
consumers:
  - {name: alice, roles: [consumer], tenants: [alice, poor], token_sha256: [%x], pin_hosts: true}
  - {name: bob, roles: [consumer], token_sha256: [%x]}
  - {name: olga, roles: [operator], token_sha256: [%x]}
  - {name: root, roles: [admin], token_sha256: [%x]}
`

func document() string {
	sum := func(name string) [32]byte { return sha256.Sum256([]byte(name + name)) }
	return fmt.Sprintf(fleetDocument, sum("alice"), sum("bob"), sum("olga"), sum("root"))
}

// rig is the surface over a real gateway and a real SQLite store, on a real socket. Its
// host is a fake link that steps a real host.Host.
type rig struct {
	t      testing.TB
	server *httptest.Server
	g      *control.Gateway
	store  *sabotaged
	clock  *storetest.Clock
	host   *fakeHost
	log    *safeBuffer
	router routers.Router
}

type options struct {
	noHost   bool
	noConfig bool
	host     func(*host.Config)
	document string        // default: document()
	wall     time.Duration // by which the replica's wall clock is wrong
}

func newRig(t testing.TB, o options) *rig {
	t.Helper()
	router, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: storetest.NewClock(), log: &safeBuffer{}, router: router}
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "plimsoll.db"), sqlite.Options{Clock: r.clock.Now})
	r.must(err)
	r.store = &sabotaged{Store: s}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	key, err := ticket.NewRoot("k1", ticket.Signing, []byte("0123456789abcdefghijklmnopqrstuv"))
	r.must(err)
	ring, err := ticket.NewKeyring(key)
	r.must(err)
	log := slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	metrics, began := prometheus.NewRegistry(), time.Now()
	r.g, err = control.New(control.Options{
		Store: r.store, Keys: ring, Passage: admission.DefaultConfig(), Metrics: control.NewMetrics(metrics), Log: log,
		Now: func() time.Duration { return time.Since(began) }, Rand: rand.Uint64,
		Wall: func() time.Time { return time.Now().Add(o.wall) },
	})
	r.must(err)
	metrics.MustRegister(r.g.Gauges())
	if !o.noConfig {
		r.configure(cmp.Or(o.document, document()))
	}
	if !o.noHost {
		r.attach(o.host)
	}
	r.server = httptest.NewServer((&web.Server{Gateway: r.g, Metrics: metrics, Log: log}).Handler())
	t.Cleanup(func() {
		r.g.Stop()
		r.server.Close()
	})
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) configure(document string) {
	r.t.Helper()
	fleet, err := config.ParseFleet("test", []byte(document))
	r.must(err)
	_, ok, err := r.store.Apply(r.t.Context(), control.Config{Document: document, By: "test"}, fleet.Settings())
	r.must(err)
	if !ok {
		r.t.Fatal("not applied")
	}
	r.must(r.g.Load(r.t.Context()))
}

func (r *rig) attach(change func(*host.Config)) {
	r.host = newHost(change)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.g.Attach(ctx, r.host, r.host)
	}()
	r.t.Cleanup(func() {
		cancel()
		<-over
	})
	<-r.host.seen
	for r.g.Fleet() != nil && r.g.Ready(r.t.Context()) != nil {
		time.Sleep(time.Millisecond)
	}
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

// fakeHost steps a real host.Host with 4 GiB of budget and 256 MiB of headroom.
type fakeHost struct {
	began time.Time
	seen  chan struct{} // closed when a gateway asked for its verdict

	mu   sync.Mutex // guards what follows
	h    *host.Host
	once sync.Once
	deaf bool
	keep bool // does not stop what it is told to
}

func newHost(change func(*host.Config)) *fakeHost {
	cfg := host.DefaultConfig("h1", 64)
	cfg.Headroom = 256 * gate.MiB
	if change != nil {
		change(&cfg)
	}
	h := &fakeHost{began: time.Now(), seen: make(chan struct{}), h: host.New(cfg, 9)}
	h.step(host.Sample{Limits: []gate.Limit{{Name: "machine", Size: 4 * gate.GiB}}, Full: true})
	return h
}

func (h *fakeHost) step(ev host.Event) host.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	fx := h.h.Step(time.Since(h.began)+time.Second, ev)
	answer := fx.Answer
	if !h.keep {
		for _, ref := range append([]host.Ref(nil), fx.Stops...) {
			h.h.Step(time.Since(h.began)+time.Second, host.Done{ID: ref.ID, Epoch: ref.Epoch})
		}
	}
	return answer
}

func (h *fakeHost) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

var errDeaf = errors.New("no answer")

func look[T any](h *fakeHost, f func(*host.Host) T) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deaf {
		var none T
		return none, errDeaf
	}
	return f(h.h), nil
}

func (h *fakeHost) ID() string { return "h1" }

func (h *fakeHost) Do(_ context.Context, ev host.Event) (host.Answer, error) {
	if _, err := look(h, (*host.Host).Intake); err != nil {
		return host.Answer{}, err
	}
	return h.step(ev), nil
}

func (h *fakeHost) Verdict(context.Context) (host.Verdict, error) {
	defer h.once.Do(func() { close(h.seen) })
	return look(h, (*host.Host).Verdict)
}

func (h *fakeHost) View(context.Context) (host.View, error) { return look(h, (*host.Host).View) }

func (h *fakeHost) Holding(context.Context) (host.Held, error) { return look(h, (*host.Host).Held) }

func (h *fakeHost) Clear(context.Context, string) error { return nil }

func (h *fakeHost) Holds(_ context.Context, ref host.Ref) (reserved, running bool, err error) {
	_, err = look(h, func(h *host.Host) bool {
		reserved, running = h.Holds(ref.ID, ref.Epoch)
		return true
	})
	return reserved, running, err
}

func (h *fakeHost) Placed(_ context.Context, id string) (host.Placed, error) {
	return look(h, func(h *host.Host) host.Placed { return h.Placed(id) })
}

func (h *fakeHost) Lore(_ context.Context, after int64) (host.Lore, error) {
	return look(h, func(h *host.Host) host.Lore { return h.Lore(after) })
}

func (h *fakeHost) Next(ctx context.Context) (host.News, error) {
	<-ctx.Done()
	return host.News{}, ctx.Err()
}

// contract is the router of the document that is served; to read it takes a while.
var contract = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

// answer is a response that has been held against the contract.
type answer struct {
	t      testing.TB
	Status int
	Header http.Header
	Body   []byte
}

func (a answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		a.t.Fatalf("%s: %v", a.Body, err)
	}
}

func (a answer) problem() (p api.Problem) {
	a.t.Helper()
	a.into(&p)
	return p
}

func (a answer) admission() (v api.Admission) {
	a.t.Helper()
	a.into(&v)
	return v
}

// call sends a request as somebody and holds the answer against the contract; and the
// request too: what the contract refuses must be refused.
func (r *rig) call(who, method, path, body string) answer {
	r.t.Helper()
	a, invalid := r.exchange(who, method, path, body)
	if invalid != nil && a.Status < 400 {
		r.t.Errorf("%s %s %s: the contract says %v, and the answer is %d", method, path, body, invalid, a.Status)
	}
	return a
}

// tokenOf is a consumer's, or a host's credential as it is.
func tokenOf(who string) string {
	if strings.HasPrefix(who, "plh_") {
		return who
	}
	return who + who
}

func (r *rig) exchange(who, method, path, body string) (answer, error) {
	r.t.Helper()
	request := func() *http.Request {
		q, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, strings.NewReader(body))
		r.must(err)
		if who != "" {
			q.Header.Set("Authorization", "Bearer "+tokenOf(who))
		}
		if body != "" {
			q.Header.Set("Content-Type", "application/json")
		}
		return q
	}
	resp, err := r.server.Client().Do(request())
	r.must(err)
	defer resp.Body.Close()
	a := answer{t: r.t, Status: resp.StatusCode, Header: resp.Header}
	a.Body, err = io.ReadAll(resp.Body)
	r.must(err)
	return a, r.holds(request(), a)
}

// holds checks an exchange against the contract and returns what is wrong with the request.
func (r *rig) holds(q *http.Request, a answer) error {
	r.t.Helper()
	if a.Status >= 400 {
		r.problemHolds(q, a)
	}
	q.URL.Host, q.URL.Scheme, q.Host = "", "", ""
	route, params, err := r.router.FindRoute(q)
	if err != nil {
		if a.Status < 400 && a.Status != http.StatusMovedPermanently {
			r.t.Errorf("%s %s is not in the contract, and the answer is %d", q.Method, q.URL.Path, a.Status)
		}
		return nil
	}
	in := &openapi3filter.RequestValidationInput{
		Request: q, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	invalid := openapi3filter.ValidateRequest(context.Background(), in)
	if a.Header.Get("Content-Type") == "application/yaml" {
		in.Options.ExcludeResponseBody = true // it would be read as what it describes
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.Status, Header: a.Header, Options: in.Options}
	if err := openapi3filter.ValidateResponse(context.Background(), out.SetBodyBytes(a.Body)); err != nil {
		r.t.Errorf("%s %s answers %d with %s: %v", q.Method, q.URL.Path, a.Status, a.Body, err)
	}
	return invalid
}

// problemHolds holds a no against the table of codes.
func (r *rig) problemHolds(q *http.Request, a answer) {
	r.t.Helper()
	bad := func(what string) {
		r.t.Errorf("%s %s answers %d %v %s: %s", q.Method, q.URL.Path, a.Status, a.Header, a.Body, what)
	}
	if a.Header.Get("Content-Type") != "application/problem+json" {
		bad("no problem document")
		return
	}
	if q.Method == http.MethodHead {
		return
	}
	p := a.problem()
	m := p.Code.Meaning()
	switch {
	case m.Code != p.Code || m.Status != a.Status || p.Status != a.Status || m.Title != p.Title || m.Retryable() != p.Retryable:
		bad("not as the table of codes has it")
	case p.Type != "urn:plimsoll:problem:"+string(p.Code) || p.Remedy == "" || p.DecisionID == "" || p.Scope == "":
		bad("no type, remedy, scope or name")
	case a.Status == http.StatusTooManyRequests:
		bad("429 never means capacity")
	}
	if !strings.Contains(r.log.String(), p.DecisionID) {
		bad("the log does not know it by its name")
	}
	after := a.Header.Get("Retry-After")
	if p.Retryable != (p.RetryAfterMS > 0) || (after != "") != p.Retryable || (after != "" && after != fmt.Sprint((p.RetryAfterMS+999)/1000)) {
		bad("Retry-After and retry_after_ms")
	}
	if challenge := a.Header.Get("WWW-Authenticate"); (a.Status == http.StatusUnauthorized) != strings.HasPrefix(challenge, "Bearer") {
		bad("WWW-Authenticate")
	}
	if allow := a.Header.Get("Allow"); (a.Status == http.StatusMethodNotAllowed) != (allow != "") {
		bad("Allow")
	}
}

// filter narrows nothing.
var filter = control.Filter{}

// intake is what the host says of itself.
func (h *fakeHost) intake() host.Intake {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.h.Verdict().Intake
}
