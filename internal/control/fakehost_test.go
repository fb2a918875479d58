package control_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

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

	mu      sync.Mutex // guards what follows
	h       *host.Host
	news    host.News
	some    chan struct{}     // holds one token when there is news
	stepped chan struct{}     // likewise after a step: something else may be due first
	deaf    bool              // answers nothing and says nothing
	mute    bool              // loses ends and tracks on the way
	strays  []host.Stray      // run in no ledger's name
	lost    []host.Stray      // likewise, and are known from the start of a life on
	quiet   bool              // says nothing unasked
	lag     time.Duration     // of its verdicts
	also    []func(host.News) // hear what it says unasked
	plan    map[string]string
	asked   map[string]int // kind of event, or Verdict -> times
}

func oneHost(mib int64) []*fakeHost { return []*fakeHost{{id: "h1", budget: gate.FromMiB(mib)}} }

func twoHosts(mib int64) []*fakeHost {
	return append(oneHost(mib), &fakeHost{id: "h2", budget: gate.FromMiB(mib)})
}

func (h *fakeHost) begin(t testing.TB, incarnation int64) {
	h.t, h.started = t, time.Now()
	h.ctx, h.cancel = context.WithCancel(t.Context())
	h.stepped = make(chan struct{}, 1)
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
	h.h.Step(0, host.OutOfGate{Strays: h.lost})
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
		case <-h.stepped:
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
	select {
	case h.stepped <- struct{}{}:
	default:
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
	held.OutOfGate = append(held.OutOfGate, h.strays...)
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

// Lore implements control.Link.
func (h *fakeHost) Lore(ctx context.Context, after int64) (host.Lore, error) {
	return ask(ctx, h, "Lore", func(h *host.Host) host.Lore { return h.Lore(after) })
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
