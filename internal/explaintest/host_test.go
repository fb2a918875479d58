package explaintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// fakeHost is an agent without a machine: it steps a real host.Host, and is deaf or keeps what it
// is told to stop where a scenario says so.
type fakeHost struct {
	id     string
	budget gate.Bytes
	config func(*host.Config)

	mu      sync.Mutex // guards what follows
	h       *host.Host
	used    gate.Bytes // of the budget, by others
	now     time.Duration
	news    host.News
	spoke   chan struct{} // holds one token when there is news
	waiting bool          // the replica has taken all of it, and wants more
	deaf    bool          // answers nothing, says nothing
	mute    bool          // says nothing of ends
	keeps   bool          // does not stop what it is told to
}

func newHost(id string, budget gate.Bytes, config ...func(*host.Config)) *fakeHost {
	h := &fakeHost{id: id, budget: budget, spoke: make(chan struct{}, 1)}
	if len(config) > 0 {
		h.config = config[0]
	}
	return h
}

// start makes the host one of the fleet, and its agent heard.
func (s *stage) start(h *fakeHost) {
	s.t.Helper()
	incarnation, err := s.store.Register(s.t.Context(), h.id)
	s.must(err)
	s.attach(h, incarnation)
}

func (s *stage) attach(h *fakeHost, incarnation int64) {
	s.t.Helper()
	cfg := host.DefaultConfig(h.id, 64)
	cfg.Headroom = 256 * gate.MiB
	if h.config != nil {
		h.config(&cfg)
	}
	h.h, h.now = host.New(cfg, incarnation), time.Second
	h.sample(host.Sample{})
	s.hosts[h.id] = h
	go func() { _ = s.g.Attach(s.ctx, h, h) }()
	s.settled()
}

// joins runs what a machine does with a token: it joins, registers, and its agent is heard.
func (s *stage) joins(token string, h *fakeHost) {
	s.t.Helper()
	got := s.send(http.MethodPost, "/v1/hosts:join", "", fmt.Sprintf(`{"join_token":%q,"host":%q,"endpoint":"127.0.0.1:7071"}`, strings.TrimSpace(token), h.id))
	var joined api.HostJoined
	s.must(json.Unmarshal(got.body, &joined))
	got = s.send(http.MethodPost, "/v1/hosts/"+h.id+"/register", joined.Credential, `{"endpoint":"127.0.0.1:7071","version":"v1","incarnation":0}`)
	var registered api.HostRegistered
	if err := json.Unmarshal(got.body, &registered); err != nil || registered.Incarnation == 0 {
		s.t.Fatalf("register: %d %s", got.status, got.body)
	}
	s.attach(h, registered.Incarnation)
}

// sample has the host measure: its whole budget is free, unless the sample says otherwise.
func (h *fakeHost) sample(e host.Sample) {
	h.mu.Lock()
	e.Limits, e.Full = []gate.Limit{{Name: "machine", Size: h.budget, Used: h.used}}, true
	h.mu.Unlock()
	h.step(e)
}

func (h *fakeHost) sampled() { h.sample(host.Sample{}) }

// step is an event at the host, and what it says of it.
func (h *fakeHost) step(ev host.Event) host.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += time.Millisecond
	fx := h.h.Step(h.now, ev)
	h.tell(fx)
	if !h.keeps {
		for _, ref := range slices.Clone(fx.Stops) {
			h.tell(h.h.Step(h.now, host.Done{ID: ref.ID, Epoch: ref.Epoch, Reason: "stopped"}))
		}
	}
	return fx.Answer
}

func (h *fakeHost) tell(fx host.Effects) {
	n := host.News{Verdict: h.h.Verdict(), Ends: slices.Clone(fx.Ends), Reopens: slices.Clone(fx.Reopens)}
	h.news.Add(n)
	h.speak()
}

// speak sends what there is to say, if anybody could hear it.
func (h *fakeHost) speak() {
	if h.deaf || h.mute {
		return
	}
	h.waiting = false
	select {
	case h.spoke <- struct{}{}:
	default:
	}
}

func (h *fakeHost) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	h.speak()
}

func (h *fakeHost) advance(d time.Duration) {
	h.mu.Lock()
	h.now += d
	h.mu.Unlock()
	h.step(host.Tick{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news.Add(host.News{Verdict: h.h.Verdict()})
	h.speak()
}

func (h *fakeHost) isDeaf() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deaf
}

// unheard says whether something that it said has not been taken in yet.
func (h *fakeHost) unheard() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.deaf && !h.mute && !h.waiting
}

var errDeaf = errors.New("no answer")

func ask[T any](h *fakeHost, f func(*host.Host) T) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deaf {
		var none T
		return none, errDeaf
	}
	return f(h.h), nil
}

func (h *fakeHost) ID() string { return h.id }

func (h *fakeHost) Do(_ context.Context, ev host.Event) (host.Answer, error) {
	if _, err := ask(h, (*host.Host).Intake); err != nil {
		return host.Answer{}, err
	}
	return h.step(ev), nil
}

func (h *fakeHost) Verdict(context.Context) (host.Verdict, error) {
	return ask(h, (*host.Host).Verdict)
}

func (h *fakeHost) View(context.Context) (host.View, error) { return ask(h, (*host.Host).View) }

func (h *fakeHost) Holding(context.Context) (host.Held, error) { return ask(h, (*host.Host).Held) }

func (h *fakeHost) Clear(context.Context, string) error { return nil }

func (h *fakeHost) Holds(_ context.Context, ref host.Ref) (reserved, running bool, err error) {
	_, err = ask(h, func(h *host.Host) bool {
		reserved, running = h.Holds(ref.ID, ref.Epoch)
		return true
	})
	return reserved, running, err
}

func (h *fakeHost) Placed(_ context.Context, id string) (host.Placed, error) {
	return ask(h, func(h *host.Host) host.Placed { return h.Placed(id) })
}

func (h *fakeHost) Lore(_ context.Context, after int64) (host.Lore, error) {
	return ask(h, func(h *host.Host) host.Lore { return h.Lore(after) })
}

// Next implements control.Feed. Whoever asks for more has taken in what was said before.
func (h *fakeHost) Next(ctx context.Context) (host.News, error) {
	for {
		h.mu.Lock()
		if n := h.news; !h.deaf && !h.mute && len(h.spoke) > 0 {
			<-h.spoke
			h.news = host.News{}
			h.mu.Unlock()
			return n, nil
		}
		h.waiting = len(h.spoke) == 0
		h.mu.Unlock()
		select {
		case <-ctx.Done():
			return host.News{}, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// boots redeems what a key was promised, and tracks it.
func (s *stage) boots(key string) host.Ref {
	s.t.Helper()
	var a api.Admission
	s.must(json.Unmarshal(s.send(http.MethodGet, "/v1/admissions/"+key, "alicealice", "").body, &a))
	ref, h := host.Ref{ID: a.ID, Epoch: a.Epoch}, s.hosts[a.Host]
	for _, ev := range []host.Event{host.Redeem{ID: ref.ID, Epoch: ref.Epoch}, host.Track{ID: ref.ID, Epoch: ref.Epoch}} {
		if answer := h.step(ev); answer.Denial != "" {
			s.t.Fatalf("%T: %s", ev, answer.Denial)
		}
	}
	h.set(func() { h.news.Add(host.News{Verdict: h.h.Verdict(), Tracks: []host.Ref{ref}}) })
	s.eventually("it to run", func() bool {
		return strings.Contains(string(s.send(http.MethodGet, "/v1/admissions/"+key, "alicealice", "").body), `"state":"running"`)
	})
	return ref
}
