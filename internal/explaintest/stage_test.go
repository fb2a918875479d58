// Package explaintest holds what plimsoll explain says of a no to its word: each code that a create
// can get is brought about at a real server, each change that is named is made by the command or
// the field that it names, and the same create must be admitted.
package explaintest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/sqlite"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/internal/web"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// fleetDocument is what each scenario begins with: a sandbox of class small is charged 128 MiB, one of
// class base 1 GiB. A token is its consumer's name, doubled.
const fleetDocument = `
ceiling: none
pools:
  - {name: open, cap: 100}
  - {name: two, cap: 2, max_waiting: 1}
  - {name: shared, cap: 4, shares: [{consumer: alice, max: 1}]}
  - {name: cloud, cap: 1, placement: none}
classes:
  - {name: small, pool: open, memory: 512MiB, min_memory: 64MiB, max_memory: 64GiB, min_cpu: 0.25, max_cpu: 2, reserve_floor: 64MiB}
  - {name: tight, pool: open, memory: 512MiB, min_memory: 64MiB, max_memory: 1GiB, reserve_floor: 64MiB}
  - {name: base, pool: open, memory: 1GiB, min_memory: 128MiB, max_memory: 64GiB, stateful: true}
  - {name: card, pool: open, memory: 512MiB, reserve_floor: 64MiB, dimensions: {gpus: 1}}
  - {name: keeper, pool: open, memory: 512MiB, reserve_floor: 64MiB, hold_on_exit: true}
  - {name: duo, pool: two, memory: 512MiB, reserve_floor: 64MiB}
  - {name: part, pool: shared, memory: 512MiB, reserve_floor: 64MiB}
  - {name: cell, pool: cloud}
default_quota: none
quotas: [{tenant: poor, limit: 1}]
consumers:
  - {name: alice, tenants: [alice, poor], pin_hosts: true, token_sha256: [%x]}
  - {name: bob, token_sha256: [%x]}
  - {name: provider, roles: [substrate], audiences: [cloud], token_sha256: [%x]}
  - {name: root, roles: [admin], tenants: ["*"], token_sha256: [%x]}
`

// localToken is this machine's, which is good whatever is configured.
const localToken = "rootroot-of-this-machine"

func document() string {
	sum := func(name string) [32]byte { return sha256.Sum256([]byte(name + name)) }
	return fmt.Sprintf(fleetDocument, sum("alice"), sum("bob"), sum("provider"), sum("root"))
}

// stage is a server on a real socket over a real store, whose clock only advance moves, with hosts
// that step the real rules.
type stage struct {
	t       *testing.T
	g       *control.Gateway
	store   *breakable
	clock   *storetest.Clock
	began   time.Time
	skipped atomic.Int64 // by how much advance moved the replica's clock
	server  *httptest.Server
	ctx     context.Context
	dir     string
	hosts   map[string]*fakeHost // id -> host
}

// breakable is a store of which a test can break what a create needs.
type breakable struct {
	control.Store
	mu       sync.Mutex // guards what follows
	claim    error
	settling func(id string) // is told before a settlement
	spoils   bool            // rows come back without the end of their reservation
}

func (b *breakable) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (b *breakable) Claim(ctx context.Context, c pool.Claim) (pool.Claimed, error) {
	b.mu.Lock()
	err := b.claim
	b.mu.Unlock()
	if err != nil {
		return pool.Claimed{}, err
	}
	return b.Store.Claim(ctx, c)
}

func (b *breakable) Settle(ctx context.Context, id string, gen int64, host string, reservedFor time.Duration) (pool.Row, bool, error) {
	b.mu.Lock()
	told := b.settling
	b.mu.Unlock()
	if told != nil {
		told(id)
	}
	row, ok, err := b.Store.Settle(ctx, id, gen, host, reservedFor)
	return b.spoil(row), ok, err
}

func (b *breakable) Renew(ctx context.Context, id string, epoch int64, reservedFor time.Duration) (pool.Row, bool, error) {
	row, ok, err := b.Store.Renew(ctx, id, epoch, reservedFor)
	return b.spoil(row), ok, err
}

func (b *breakable) spoil(r pool.Row) pool.Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spoils {
		r.ReservedUntil = 0
	}
	return r
}

func newStage(t *testing.T, document string, hosts ...*fakeHost) *stage {
	t.Helper()
	s := &stage{t: t, clock: storetest.NewClock(), began: time.Now(), dir: t.TempDir(), hosts: map[string]*fakeHost{}}
	ctx, cancel := context.WithCancel(context.Background())
	s.ctx = ctx
	db := s.open()
	s.store = &breakable{Store: db}
	var running sync.WaitGroup
	running.Go(func() { _ = db.Run(context.Background()) })
	var err error
	s.g, err = control.New(s.options())
	s.must(err)
	if document != "" {
		s.configure(document)
	}
	s.server = httptest.NewServer((&web.Server{Gateway: s.g, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}).Handler())
	running.Go(func() { s.g.Follow(ctx, nil) })
	running.Go(func() { s.g.KeepUntil(ctx) })
	for _, h := range hosts {
		s.start(h)
	}
	t.Cleanup(func() {
		s.g.Stop()
		s.server.Close()
		cancel()
		db.Close()
		running.Wait()
	})
	return s
}

// migrated is an empty database with the schema: to make one takes longer than a scenario.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "explaintest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "plimsoll.db")
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{Clock: storetest.NewClock().Now})
	if err != nil {
		return nil, err
	}
	ran := make(chan error, 1)
	go func() { ran <- db.Run(context.Background()) }()
	if err := db.Close(); err != nil {
		return nil, err
	}
	<-ran
	return os.ReadFile(path)
})

// open is a database of the stage's own.
func (s *stage) open() *sqlite.Store {
	s.t.Helper()
	empty, err := migrated()
	s.must(err)
	path := filepath.Join(s.dir, "plimsoll.db")
	s.must(os.WriteFile(path, empty, 0o600))
	db, err := sqlite.Open(s.t.Context(), path, sqlite.Options{Clock: s.clock.Now})
	s.must(err)
	return db
}

func (s *stage) options() control.Options {
	key, err := ticket.NewRoot("k1", ticket.Signing, []byte("0123456789abcdefghijklmnopqrstuv"))
	s.must(err)
	ring, err := ticket.NewKeyring(key)
	s.must(err)
	return control.Options{
		Store: s.store, Keys: ring, Passage: admission.DefaultConfig(), Self: "r1", Rand: rand.Uint64,
		Metrics: control.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
		Local: &config.Consumer{Name: "local", Roles: []config.Role{config.RoleAdmin}, Tenants: []string{config.AnyTenant}, Tokens: []config.TokenHash{sha256.Sum256([]byte(localToken))}},
		Now:   func() time.Duration { return time.Since(s.began) + time.Duration(s.skipped.Load()) },
		Wall:  func() time.Time { return s.clock.Now().Wall() },
	}
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) configure(document string) {
	s.t.Helper()
	fleet, err := config.ParseFleet("test", []byte(document))
	s.must(err)
	_, ok, err := s.store.Apply(s.t.Context(), control.Config{Document: document, By: "test"}, fleet.Settings())
	s.must(err)
	if !ok {
		s.t.Fatal("not applied")
	}
	s.must(s.g.Load(s.t.Context()))
}

const pulseEvery = 5 * time.Second

// advance moves every clock on, while the replica writes its pulse. Whoever is not deaf has spoken again then.
func (s *stage) advance(d time.Duration) {
	s.t.Helper()
	for left := d; left > 0; left -= pulseEvery {
		s.clock.Advance(min(left, pulseEvery))
		var heard []string
		for id, h := range s.hosts {
			if !h.isDeaf() {
				heard = append(heard, id)
			}
		}
		_, err := s.store.Pulse(s.t.Context(), heard)
		s.must(err)
	}
	s.skipped.Add(int64(d))
	_, err := s.store.Sweep(s.t.Context())
	s.must(err)
	for _, h := range s.hosts {
		h.advance(d)
	}
	s.settled()
}

// settled waits until the replica has taken in what the hosts last said.
func (s *stage) settled() {
	s.t.Helper()
	s.eventually("the hosts' news to arrive", func() bool {
		for _, h := range s.hosts {
			if h.unheard() {
				return false
			}
		}
		return true
	})
}

func (s *stage) eventually(what string, so func() bool) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("waited in vain for ", what)
		}
	}
}

// reply is what a create got.
type reply struct {
	status int
	body   []byte
}

// post is a create, with the token of somebody; "" sends none.
func (s *stage) post(token, body string) reply {
	s.t.Helper()
	return s.send(http.MethodPost, "/v1/admissions", token, body)
}

func (s *stage) send(method, path, token, body string) reply {
	s.t.Helper()
	q, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, strings.NewReader(body))
	s.must(err)
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := s.server.Client().Do(q)
	s.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	s.must(err)
	return reply{resp.StatusCode, text}
}

// hold is a create of alice's that must be admitted.
func (s *stage) hold(key, class string, more ...string) {
	s.t.Helper()
	body := fmt.Sprintf(`{"key":%q,"class":%q%s}`, key, class, strings.Join(more, ""))
	if got := s.post("alicealice", body); got.status != http.StatusCreated {
		s.t.Fatalf("%s: %d %s", body, got.status, got.body)
	}
}

func (s *stage) release(key string) {
	s.t.Helper()
	if got := s.send(http.MethodDelete, "/v1/admissions/"+key, "alicealice", ""); got.status >= 300 {
		s.t.Fatalf("release %s: %d %s", key, got.status, got.body)
	}
}

// run is one of our commands, by whoever has this machine's token; it must succeed.
func (s *stage) run(line string) string {
	s.t.Helper()
	words := split(line)
	if len(words) == 0 || words[0] != "plimsoll" {
		s.t.Fatalf("%q is no command of ours", line)
	}
	token := filepath.Join(s.dir, "token")
	s.must(os.WriteFile(token, []byte(localToken), 0o600))
	var out, errs bytes.Buffer
	args := append(words[1:], "--url", s.server.URL, "--token-file", token)
	if status := cli.Run(s.t.Context(), args, cli.Options{Stdout: &out, Stderr: &errs}); status != 0 {
		s.t.Fatalf("%s: exit status %d\n%s%s", line, status, &out, &errs)
	}
	return out.String()
}

// split parts a command line into words; what stands in double quotes is one.
func split(line string) (words []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}
