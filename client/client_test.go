package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// server is a control plane in a function: no socket, so that time can be virtual.
type server func(*http.Request) (*http.Response, error)

func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	return s(r)
}

// script answers one call after the other with its lines.
type script struct {
	t       *testing.T
	answers []answer
	seen    []seen
}

type answer struct {
	status int
	body   any
	header map[string]string
	err    error
	takes  time.Duration
}

type seen struct {
	method, url string
	body        api.AdmissionRequest
	at          time.Time
}

func (s *script) serve(r *http.Request) (*http.Response, error) {
	text, _ := io.ReadAll(r.Body)
	call := seen{method: r.Method, url: r.URL.RequestURI(), at: time.Now()}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &call.body); err != nil {
			s.t.Errorf("body of %s: %v", call.url, err)
		}
	}
	s.seen = append(s.seen, call)
	if len(s.seen) > len(s.answers) {
		s.t.Fatalf("call %d was not expected: %s %s", len(s.seen), r.Method, r.URL)
	}
	a := s.answers[len(s.seen)-1]
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(a.takes):
	}
	return respond(a), a.err
}

func respond(a answer) *http.Response {
	if a.err != nil {
		return nil
	}
	text, ok := a.body.(string)
	kind := "text/html"
	if !ok {
		b, _ := json.Marshal(a.body)
		text, kind = string(b), "application/json"
	}
	if _, no := a.body.(api.Problem); no {
		kind = "application/problem+json"
	}
	h := http.Header{"Content-Type": {kind}}
	for name, value := range a.header {
		h.Set(name, value)
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Header: h,
		Body: io.NopCloser(strings.NewReader(text)),
	}
}

// talk makes a client of a script; its jitter is always half the window.
func talk(t *testing.T, answers ...answer) (*client.Client, *script) {
	t.Helper()
	s := &script{t: t, answers: answers}
	c, err := client.New("http://plimsoll.test/base", "secret",
		client.WithHTTPClient(&http.Client{Transport: server(s.serve)}),
		client.WithRandom(func() uint64 { return 1 << 63 }))
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func no(code api.Code, retryMS int64) answer {
	m := code.Meaning()
	return answer{status: m.Status, body: api.Problem{
		Code: code, Status: m.Status, Scope: m.Scope, Retryable: m.Retryable(),
		RetryAfterMS: retryMS, Receipt: "r-" + string(code),
	}}
}

func yes(status int) answer {
	return answer{status: status, body: api.Admission{
		Key: "k", ID: "a-1", State: api.AdmissionStateAdmitted, Host: "h", Ticket: "t",
	}}
}

func queued(position int64, takes time.Duration) answer {
	return answer{status: 202, takes: takes, body: api.Waiting{
		Code: api.WaitingCapacity, Key: "k", Position: position, WaitingFor: api.WaitingForSlot,
		State: api.AdmissionStateWaitingCapacity, PollAfterMS: 1000,
	}}
}

var request = api.AdmissionRequest{Key: "k", Class: "agent"}

func virtual(t *testing.T, test func(t *testing.T, ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, t.Context()) })
}

func TestAYesAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, s := talk(t, yes(201))
		a, err := c.Admit(ctx, request, client.Options{Wait: client.Once})
		if err != nil || a.Ticket != "t" {
			t.Fatalf("got %+v, %v", a, err)
		}
		if got := s.seen[0].method + " " + s.seen[0].url; got != "POST /base/v1/admissions" {
			t.Error(got)
		}
	})
}

func TestAKeyIsMadeOnceForAllTries(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, s := talk(t, no(api.NoCapacity, 0), answer{err: errors.New("reset")}, yes(201))
		_, err := c.Admit(ctx, api.AdmissionRequest{Class: "agent"}, client.Options{Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		first := s.seen[0].body.Key
		if first == "" || s.seen[1].body.Key != first || s.seen[2].body.Key != first {
			t.Errorf("keys: %+v", s.seen)
		}
	})
}

// A refusal's appointment is a lower bound, with jitter on top; the body's milliseconds go
// before the header's seconds; and the receipt goes along with the next try.
func TestRefuseModeComesBackAfterItsAppointment(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		first := no(api.PoolFull, 2400)
		first.header = map[string]string{"Retry-After": "3"}
		second := no(api.NoCapacity, 0)
		second.header = map[string]string{"Retry-After": "5"}
		c, s := talk(t, first, second, no(api.HostPressure, 0), yes(201))
		var retried []time.Duration
		start := time.Now()
		_, err := c.Admit(ctx, request, client.Options{Wait: time.Minute, Retry: func(_ error, in time.Duration) {
			retried = append(retried, in)
		}})
		if err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{2400*time.Millisecond + 125*time.Millisecond, 5*time.Second + 250*time.Millisecond, 500 * time.Millisecond}
		total := time.Duration(0)
		for i, in := range want {
			total += in
			if retried[i] != in || s.seen[i+1].at.Sub(start) != total {
				t.Errorf("try %d came after %s (announced %s), want %s", i+1, s.seen[i+1].at.Sub(start), retried[i], total)
			}
		}
		if s.seen[0].body.Receipt != "" || s.seen[1].body.Receipt != "r-pool_full" || s.seen[2].body.Receipt != "r-no_capacity" {
			t.Errorf("receipts: %+v", s.seen)
		}
	})
}

func TestPatienceEndsWithTheLastRefusal(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, s := talk(t, no(api.NoCapacity, 0), no(api.PoolFull, 30_000))
		start := time.Now()
		_, err := c.Admit(ctx, request, client.Options{Wait: 10 * time.Second})
		if !errors.Is(err, api.PoolFull) || !client.NotNow(err) || client.Never(err) {
			t.Fatal(err)
		}
		// Its appointment lies beyond the patience, so there is nothing to wait for.
		if len(s.seen) != 2 || time.Since(start) != 125*time.Millisecond {
			t.Errorf("%d calls in %s", len(s.seen), time.Since(start))
		}
		if client.RetryAfter(err) != 30*time.Second {
			t.Error(client.RetryAfter(err))
		}
	})
}

func TestARuleOrAFaultIsNotAskedTwice(t *testing.T) {
	for _, m := range api.Table() {
		if m.Kind == api.NotNow {
			continue
		}
		virtual(t, func(t *testing.T, ctx context.Context) {
			c, s := talk(t, no(m.Code, 1000))
			_, err := c.Admit(ctx, request, client.Options{Wait: time.Hour})
			if !errors.Is(err, m.Code) || len(s.seen) != 1 {
				t.Errorf("%s: %v after %d calls", m.Code, err, len(s.seen))
			}
			if client.NotNow(err) || client.NotAllowed(err) != (m.Kind == api.NotAllowed) || client.Never(err) != (m.Kind == api.Never) {
				t.Errorf("%s: of the wrong kind", m.Code)
			}
		})
	}
}

func TestConnectionsAndProxiesAreRetriedWithinTheWait(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		proxy := func(status int) answer { return answer{status: status, body: "<html>"} }
		c, _ := talk(t, answer{err: errors.New("refused")}, proxy(502), proxy(504), yes(200))
		if _, err := c.Admit(ctx, request, client.Options{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		c, _ = talk(t, answer{err: errors.New("refused")})
		_, err := c.Admit(ctx, request, client.Options{Wait: client.Once})
		var unreachable *client.Unreachable
		if !errors.As(err, &unreachable) || !client.NotNow(err) {
			t.Fatal(err)
		}
	})
}

func TestAServerThatHangsIsUnreachable(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		hung := answer{takes: time.Hour}
		c, _ := talk(t, hung, hung)
		start := time.Now()
		_, err := c.Admit(ctx, request, client.Options{Wait: 20 * time.Second})
		var unreachable *client.Unreachable
		if !errors.As(err, &unreachable) || time.Since(start) > time.Minute {
			t.Fatalf("%v after %s", err, time.Since(start))
		}
	})
}

func TestTheQueueIsWaitedInByLongPolls(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, s := talk(t, queued(3, 0), queued(2, 5*time.Second), queued(1, 5*time.Second), yes(200))
		var places []int64
		_, err := c.Admit(ctx, request, client.Options{Wait: 12 * time.Second, Progress: func(w api.Waiting) {
			places = append(places, w.Position)
		}})
		if err != nil {
			t.Fatal(err)
		}
		if len(places) != 3 || places[0] != 3 || places[2] != 1 {
			t.Error(places)
		}
		for i, want := range []string{"/base/v1/admissions", "/base/v1/admissions/k/attempt?wait_ms=5000", "/base/v1/admissions/k/attempt?wait_ms=5000", "/base/v1/admissions/k/attempt?wait_ms=2000"} {
			if s.seen[i].url != want {
				t.Errorf("call %d: %s, want %s", i, s.seen[i].url, want)
			}
		}
	})
}

// Who is far back leaves its place alone until the server wants it back, so that a minute in the line
// costs two calls; but not into its last hold, and not where the turn may come at any moment,
// or somebody watches.
func TestWhoIsFarBackStaysAway(t *testing.T) {
	far := func(lacks api.WaitingFor) answer {
		w := queued(600, 0)
		body := w.body.(api.Waiting)
		body.PollAfterMS, body.WaitingFor = 45_000, lacks
		w.body = body
		return w
	}
	watch := func(api.Waiting) {}
	for name, tc := range map[string]struct {
		lacks api.WaitingFor
		o     client.Options
		want  time.Duration
	}{
		"for a slot":           {api.WaitingForSlot, client.Options{Wait: 3 * time.Minute}, 45 * time.Second},
		"with little patience": {api.WaitingForSlot, client.Options{Wait: 50 * time.Second}, 20 * time.Second},
		"with less":            {api.WaitingForSlot, client.Options{Wait: 20 * time.Second}, 0},
		"for a host":           {api.WaitingForHost, client.Options{Wait: 3 * time.Minute}, 0},
		"for quota":            {api.WaitingForQuota, client.Options{Wait: 3 * time.Minute}, 0},
		"watched":              {api.WaitingForSlot, client.Options{Wait: 3 * time.Minute, Progress: watch}, 0},
	} {
		virtual(t, func(t *testing.T, ctx context.Context) {
			c, s := talk(t, far(tc.lacks), yes(200))
			if _, err := c.Admit(ctx, request, tc.o); err != nil {
				t.Fatal(err)
			}
			if away := s.seen[1].at.Sub(s.seen[0].at); away != tc.want {
				t.Errorf("%s: away for %v, want %v", name, away, tc.want)
			}
		})
	}
}

func TestAKeptPlaceIsNoRefusal(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, _ := talk(t, queued(3, 0), queued(3, 10*time.Second))
		_, err := c.Admit(ctx, request, client.Options{Wait: 10 * time.Second})
		var waiting *client.StillWaiting
		if !errors.As(err, &waiting) || !client.NotNow(err) || !errors.Is(err, api.WaitingCapacity) {
			t.Fatal(err)
		}
		if _, refused := api.AsRefusal(err); refused {
			t.Error("a kept place came as a refusal")
		}
	})
}

func TestTimedOutInTheQueueIsTheEnd(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, s := talk(t, queued(1, 0), no(api.Unavailable, 100), no(api.QueueTimeout, 100))
		_, err := c.Admit(ctx, request, client.Options{Wait: time.Hour})
		if !errors.Is(err, api.QueueTimeout) || len(s.seen) != 3 {
			t.Fatal(err)
		}
	})
}

// A replica that stops gives its long polls back at once; that must not become a busy loop.
func TestEarlyAnswersAreSpreadOut(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		answers := []answer{queued(1, 0)}
		for range 80 {
			answers = append(answers, queued(1, 0))
		}
		c, s := talk(t, answers...)
		c.Admit(ctx, request, client.Options{Wait: 20 * time.Second})
		if len(s.seen) < 15 || len(s.seen) > 50 {
			t.Errorf("%d calls in 20 s", len(s.seen))
		}
	})
}

func TestTriesDoNotCrowdAtTheEndOfPatience(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		var answers []answer
		for range 20 {
			answers = append(answers, no(api.NoCapacity, 0))
		}
		c, s := talk(t, answers...)
		start := time.Now()
		_, err := c.Admit(ctx, request, client.Options{Wait: 10 * time.Second})
		if !errors.Is(err, api.NoCapacity) || len(s.seen) > 12 {
			t.Errorf("%v after %d calls", err, len(s.seen))
		}
		if last := s.seen[len(s.seen)-1].at.Sub(start); last < 9750*time.Millisecond || last > 10*time.Second {
			t.Errorf("the last try came after %s", last)
		}
	})
}

func TestCancelWhileWaiting(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		released := answer{status: 200, body: api.Admission{ID: "a-1", Key: "k", State: api.AdmissionStateReleased}}
		c, s := talk(t, queued(1, 0), queued(1, time.Minute), released)
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(3*time.Second, cancel)
		start := time.Now()
		_, err := c.Admit(ctx, request, client.Options{Wait: time.Hour})
		if !errors.Is(err, context.Canceled) || time.Since(start) != 3*time.Second {
			t.Fatal(err)
		}
		// The place is given back behind the caller, who need not wait for it.
		if err := c.Close(); err != nil || len(s.seen) != 3 || s.seen[2].method != "DELETE" {
			t.Fatalf("%v, %+v", err, s.seen)
		}
		c, _ = talk(t, no(api.NoCapacity, 60_000))
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		_, err = c.Admit(ctx, request, client.Options{Wait: time.Hour})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, api.NoCapacity) {
			t.Fatal("the last answer is lost:", err)
		}
	})
}

func TestADeadlineOfTheContextIsPatienceToo(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, _ := talk(t, no(api.NoCapacity, 60_000))
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := c.Admit(ctx, request, client.Options{Wait: time.Hour})
		if !errors.Is(err, api.NoCapacity) {
			t.Fatal(err)
		}
	})
}

func TestReleaseWaitsUntilItIsGone(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		state := func(status int, s api.AdmissionState) answer {
			return answer{status: status, body: api.Admission{ID: "a-1", Key: "k", State: s}}
		}
		c, s := talk(t, answer{err: errors.New("reset")}, state(202, api.AdmissionStateReleasing),
			state(200, api.AdmissionStateReleasing), no(api.Unavailable, 10), state(200, api.AdmissionStateReleased))
		a, err := c.Release(ctx, "k")
		if err != nil || a.State != api.AdmissionStateReleased {
			t.Fatalf("%+v, %v", a, err)
		}
		if s.seen[1].method != "DELETE" || s.seen[2].url != "/base/v1/admissions/id/a-1" {
			t.Errorf("%+v", s.seen)
		}
	})
}

func TestReleaseOfNothing(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, _ := talk(t, no(api.NotFound, 0))
		if _, err := c.Release(ctx, "k"); !errors.Is(err, api.NotFound) {
			t.Fatal(err)
		}
	})
}
