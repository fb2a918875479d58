package link

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/ticket"
)

const life = 1007 // the incarnation of the tests' host

// OutOfGate tells of one that runs in no ledger's name.
func (k *kernel) OutOfGate(*host.Held) []host.Stray {
	return []host.Stray{{ID: "stray", Where: "/plimsoll/stray", PIDs: []int{7}}}
}

// Clear says whether it was asked for that one.
func (k *kernel) Clear(_ context.Context, id string) error {
	if id != "stray" {
		return errors.New("nothing of that name runs")
	}
	return nil
}

// kernel is an agent without a machine: the real host, stepped by one goroutine as an agent
// steps it.
type kernel struct {
	id    string
	inbox chan kernelAsk
	began time.Time

	mu    sync.Mutex // guards what follows
	feeds []*agent.Feed
	batch []int // how many asks were there each time it looked

	hold    sync.Mutex // a test holds it to have many come together
	waiting atomic.Bool
}

type kernelAsk struct {
	ev   host.Event
	look func(*host.Host)
	tag  uint64
	back chan<- agent.Reply
}

func newKernel(t testing.TB, id string) *kernel {
	k := &kernel{id: id, inbox: make(chan kernelAsk, 256), began: time.Now()}
	h := host.New(host.DefaultConfig(id, 2), life)
	ended := make(chan struct{})
	h.Step(0, host.Sample{Limits: []gate.Limit{{Name: "machine", Size: 4 * gate.GiB}}, Full: true, Sandboxes: []host.Resident{}})
	go func() {
		defer close(ended)
		for a := range k.inbox {
			k.step(h, a)
		}
	}()
	t.Cleanup(func() { close(k.inbox); <-ended })
	return k
}

func (k *kernel) step(h *host.Host, first kernelAsk) {
	k.waiting.Store(true)
	k.hold.Lock()
	k.waiting.Store(false)
	k.hold.Unlock()
	all := []kernelAsk{first}
	for len(k.inbox) > 0 {
		all = append(all, <-k.inbox)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.batch = append(k.batch, len(all))
	var news host.News
	publish := false
	for _, a := range all {
		if a.look != nil {
			a.look(h)
			a.back <- agent.Reply{Tag: a.tag}
			continue
		}
		fx := h.Step(time.Since(k.began), a.ev)
		a.back <- agent.Reply{Tag: a.tag, Answer: fx.Answer}
		news.Ends = append(news.Ends, fx.Ends...)
		publish = true // whatever moved
	}
	news.Verdict = h.Verdict()
	for _, f := range k.feeds {
		if publish {
			f.Tell(news)
		}
	}
}

func (k *kernel) ID() string         { return k.id }
func (k *kernel) Incarnation() int64 { return life }

func (k *kernel) Post(_ context.Context, tag uint64, ev host.Event, back chan<- agent.Reply) error {
	k.inbox <- kernelAsk{ev: ev, tag: tag, back: back}
	return nil
}

func (k *kernel) PostLook(_ context.Context, tag uint64, _ bool, look func(*host.Host), back chan<- agent.Reply) error {
	k.inbox <- kernelAsk{look: look, tag: tag, back: back}
	return nil
}

func (k *kernel) Subscribe() *agent.Feed {
	f := agent.NewFeed()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.feeds = append(k.feeds, f)
	return f
}

func (k *kernel) Unsubscribe(gone *agent.Feed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, f := range k.feeds {
		if f == gone {
			k.feeds = append(k.feeds[:i], k.feeds[i+1:]...)
			return
		}
	}
}

// rig is a host with its server, and a replica's dialer.
type rig struct {
	t        testing.TB
	kernel   *kernel
	keys     *Keys
	server   *Server
	dialer   *Dialer
	endpoint string
	halt     func() // of the server
}

func newRing(t testing.TB, ids ...string) ticket.Keyring {
	t.Helper()
	var roots []ticket.Root
	for i, id := range ids {
		state := ticket.VerifyOnly
		if i == 0 {
			state = ticket.Signing
		}
		r, err := ticket.NewRoot(id, state, []byte("a secret of the root that is named "+id))
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, r)
	}
	ring, err := ticket.NewKeyring(roots...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func newRig(t testing.TB, change ...func(*rig, *ServerOptions, *DialerOptions)) *rig {
	t.Helper()
	r := &rig{t: t, kernel: newKernel(t, "h1")}
	ring := newRing(t, "k1")
	so := ServerOptions{Host: r.kernel, Keys: r.openKeys(ring, "h1"), Version: "test", Log: slog.New(slog.DiscardHandler)}
	do := DialerOptions{Replica: "r1", Version: "test", Keys: ring, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, c := range change {
		c(r, &so, &do)
	}
	r.keys = so.Keys
	r.server, r.dialer = NewServer(so), NewDialer(do)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.endpoint = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(ctx, l) }()
	r.halt = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.halt)
	return r
}

func (r *rig) openKeys(ring ticket.Keyring, id string) *Keys {
	r.t.Helper()
	keys, err := OpenKeys(filepath.Join(r.t.TempDir(), "keys.json"), "h1", func(ticket.AudienceKeys) {}, time.Now)
	if err != nil {
		r.t.Fatal(err)
	}
	own, err := ring.Audience(id)
	if err != nil {
		r.t.Fatal(err)
	}
	keys.keys = own
	return keys
}

func (r *rig) registered() control.RegisteredHost {
	return control.RegisteredHost{ID: "h1", Endpoint: r.endpoint}
}

func (r *rig) dial() *Conn {
	r.t.Helper()
	c, err := r.dialer.Dial(within(r.t), r.registered())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c.(*Conn)
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func ask(id string, gen int64, until time.Duration) host.Reserve {
	return host.Reserve{
		ID: id, Gen: gen, Until: until, Incarnation: life,
		Ask: gate.Ask{Class: "small", Memory: 64 * gate.MiB, Rule: gate.DefaultReserveRule()},
	}
}

func (k *kernel) listeners() []*agent.Feed {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*agent.Feed(nil), k.feeds...)
}

// busy says whether the host waits to be let on.
func (k *kernel) busy() bool { return k.waiting.Load() }

func (r *rig) closeFeeds() {
	for _, f := range r.kernel.listeners() {
		f.Close()
	}
}
