package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// gateway is a control plane in memory: it admits, and says of heartbeats and releases what a
// test wants.
type gateway struct {
	t    *testing.T
	beat func(n int) answer // nil: alive
	drop func() answer      // nil: released
	host string             // empty: a pool without hosts

	mu    sync.Mutex // guards calls and beats
	calls []string
	beats int
}

func held(ticket string) answer {
	return answer{status: 200, body: api.Admission{
		Key: "k", ID: "a-1", Epoch: 7, State: api.AdmissionStateAdmitted, Ticket: ticket, HeartbeatMS: 10_000, Audience: "cloud",
	}}
}

func (g *gateway) serve(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a := g.says(r)
	select {
	case <-time.After(a.takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return respond(a), a.err
}

func (g *gateway) says(r *http.Request) answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, r.Method+" "+r.URL.RequestURI())
	switch {
	case strings.HasSuffix(r.URL.Path, "/heartbeat"):
		g.beats++
		if g.beat != nil {
			return g.beat(g.beats)
		}
		return held("t-" + string(rune('0'+g.beats)))
	case r.Method == http.MethodDelete:
		if g.drop != nil {
			return g.drop()
		}
		return answer{status: 200, body: api.Admission{ID: "a-1", Key: "k", State: api.AdmissionStateReleased}}
	}
	if g.host != "" {
		return answer{status: 201, body: api.Admission{
			Key: "k", ID: "a-1", Epoch: 7, State: api.AdmissionStateAdmitted, Ticket: "t-0", HeartbeatMS: 20_000, Host: g.host,
		}}
	}
	return held("t-0")
}

func (g *gateway) client(t *testing.T) *client.Client {
	t.Helper()
	g.t = t
	c, err := client.New("http://plimsoll.test", "secret", client.WithHTTPClient(&http.Client{Transport: server(g.serve)}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const releaseOfIt = "DELETE /v1/admissions/id/a-1?epoch=7"

// released says that the admission was given back, by its own name.
func (g *gateway) released() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.calls, releaseOfIt)
}

func TestHoldReleasesHoweverItEnds(t *testing.T) {
	mine := errors.New("mine")
	for name, body := range map[string]func(context.Context, *client.Lease) error{
		"return":     func(context.Context, *client.Lease) error { return nil },
		"an error":   func(context.Context, *client.Lease) error { return mine },
		"a panic":    func(context.Context, *client.Lease) error { panic(mine) },
		"a deadline": func(ctx context.Context, _ *client.Lease) error { <-ctx.Done(); return mine },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, ctx context.Context) {
				g := &gateway{}
				ctx, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				err := func() (err error) {
					defer func() {
						if p := recover(); p != nil {
							err, _ = p.(error)
						}
					}()
					return g.client(t).Hold(ctx, request, client.Options{}, body)
				}()
				if name == "return" && err != nil || name != "return" && err != mine {
					t.Errorf("the error is %v, and not body's own", err)
				}
				if !g.released() {
					t.Errorf("not released: %q", g.calls)
				}
			})
		})
	}
}

// A process signal ends the context, the context the body, and the end of the body releases.
func TestHoldReleasesAtAProcessSignal(t *testing.T) {
	g := &gateway{t: t}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := g.says(r)
		reply(w, string(mustJSON(t, a.body)))
	}))
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, "secret")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	err = c.Hold(ctx, request, client.Options{}, func(ctx context.Context, _ *client.Lease) error {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || !g.released() {
		t.Errorf("%v, %q", err, g.calls)
	}
}

func TestTheLeaseHasTheNewestTicket(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		g := &gateway{}
		err := g.client(t).Hold(ctx, request, client.Options{}, func(ctx context.Context, l *client.Lease) error {
			for want := range 4 {
				if got := l.Ticket(); got != "t-"+string(rune('0'+want)) {
					t.Errorf("after %d heartbeats the ticket is %s", want, got)
				}
				time.Sleep(10*time.Second + time.Millisecond)
			}
			return nil
		})
		if err != nil || !slices.Contains(g.calls, "POST /v1/admissions/id/a-1/heartbeat") {
			t.Errorf("%v, %q", err, g.calls)
		}
	})
}

// A body is told that its admission is over: by the server's word, at once; and when the lease of
// three heartbeats passed without one that was answered.
func TestABodyIsToldThatItsAdmissionIsOver(t *testing.T) {
	state := func(s api.AdmissionState) answer {
		return answer{status: 200, body: api.Admission{ID: "a-1", Key: "k", State: s}}
	}
	lost := answer{err: errors.New("reset")}
	for name, tc := range map[string]struct {
		says  answer
		least time.Duration
		most  time.Duration
	}{
		"no such admission":       {no(api.NotFound, 0), 10 * time.Second, 11 * time.Second},
		"not this caller's":       {no(api.Forbidden, 0), 10 * time.Second, 11 * time.Second},
		"evicted":                 {state(api.AdmissionStateEvicted), 10 * time.Second, 11 * time.Second},
		"lost its slot":           {state(api.AdmissionStateWaitingCapacity), 10 * time.Second, 11 * time.Second},
		"nobody answers":          {lost, 29 * time.Second, 31 * time.Second},
		"nobody answers, ever":    {answer{takes: time.Hour}, 29 * time.Second, 31 * time.Second},
		"unavailable":             {no(api.Unavailable, 1000), 29 * time.Second, 31 * time.Second},
		"a token that is no more": {no(api.Unauthenticated, 0), 29 * time.Second, 31 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, ctx context.Context) {
				g := &gateway{beat: func(int) answer { return tc.says }}
				start := time.Now()
				var cause error
				err := g.client(t).Hold(ctx, request, client.Options{}, func(ctx context.Context, _ *client.Lease) error {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return ctx.Err()
				})
				told := time.Since(start)
				var over *client.Lost
				if !errors.As(err, &over) || over.ID != "a-1" || !errors.As(cause, &over) {
					t.Errorf("the body was told %v, the caller %v", cause, err)
				}
				if told < tc.least || told > tc.most {
					t.Errorf("told after %s", told)
				}
				if g.beats > 40 {
					t.Errorf("%d heartbeats", g.beats)
				}
				if !g.released() {
					t.Error("what may still stand was not released")
				}
			})
		})
	}
}

// A heartbeat or two that get lost end nothing.
func TestHeartbeatsThatGetLostEndNothing(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		g := &gateway{beat: func(n int) answer {
			if n%3 > 0 {
				return answer{err: errors.New("reset")}
			}
			return held("t")
		}}
		err := g.client(t).Hold(ctx, request, client.Options{}, func(ctx context.Context, _ *client.Lease) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(10 * time.Minute):
				return nil
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A host's sandbox runs on while no replica is there: silence ends nothing of it, and the server's word
// does.
func TestSilenceEndsNothingThatAHostKeeps(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		silent := 30 * time.Minute
		start := time.Now()
		g := &gateway{host: "h-1", beat: func(int) answer {
			if time.Since(start) < silent {
				return answer{err: errors.New("reset")}
			}
			return no(api.NotFound, 0)
		}}
		err := g.client(t).Hold(ctx, request, client.Options{}, func(ctx context.Context, _ *client.Lease) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if told := time.Since(start); !errors.As(err, new(*client.Lost)) || told < silent || told > silent+time.Minute {
			t.Errorf("%v after %s", err, told)
		}
	})
}

// A release that nobody hears is told, beside what the body said.
func TestAReleaseThatCouldNotBeToldIsReported(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		g := &gateway{drop: func() answer { return answer{err: errors.New("reset")} }}
		mine := errors.New("mine")
		start := time.Now()
		c := g.client(t)
		err := c.Hold(ctx, request, client.Options{}, func(context.Context, *client.Lease) error { return mine })
		var untold *client.NotGivenBack
		if !errors.As(err, &untold) || untold.ID != "a-1" || !errors.Is(err, mine) {
			t.Errorf("%v", err)
		}
		if took := time.Since(start); took < 5*time.Second || took > 15*time.Second {
			t.Errorf("it was tried for %s", took)
		}
		// So is one in the background.
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		_, err = c.Resume(ctx, "k", client.Options{})
		if err == nil {
			t.Fatal("a cancelled call said yes")
		}
		if err := c.Close(); !errors.As(err, &untold) || untold.Key != "k" {
			t.Errorf("%v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("told twice: %v", err)
		}
	})
}

func TestWithoutAYesNoBodyRuns(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, _ := talk(t, no(api.PoolFull, 60_000))
		err := c.Hold(ctx, request, client.Options{Wait: client.Once}, func(context.Context, *client.Lease) error {
			t.Error("it runs")
			return nil
		})
		if !client.NotNow(err) {
			t.Error(err)
		}
	})
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
