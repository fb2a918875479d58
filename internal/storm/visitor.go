package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// visitor is what one caller of a gale did and was told; the gale's lock guards it.
type visitor struct {
	gale     *gale
	at       time.Duration // its first call
	counts   bool          // it is one of the storm
	attempts int
	waiting  bool
	told     []told
}

func (v *visitor) begins() {
	if v.counts {
		v.gale.mu.Lock()
		defer v.gale.mu.Unlock()
		v.gale.out.callers++
	}
}

func (v *visitor) calls() {
	v.gale.mu.Lock()
	defer v.gale.mu.Unlock()
	v.attempts++
	if v.counts {
		v.gale.out.call(v.gale.now())
	}
}

// hears takes note of an answer that is no yes, and of what it told.
func (v *visitor) hears(in time.Duration) {
	g := v.gale
	g.mu.Lock()
	defer g.mu.Unlock()
	if !v.waiting {
		g.note()
		v.waiting = true
		g.waiters++
	}
	if in > 0 {
		v.told = append(v.told, told{g.now(), in})
	}
}

// took notes how long a create was on its way.
func (v *visitor) took(d time.Duration) {
	if v.counts {
		v.gale.mu.Lock()
		defer v.gale.mu.Unlock()
		v.gale.posts = append(v.gale.posts, d)
	}
}

func (v *visitor) admitted() {
	g := v.gale
	g.mu.Lock()
	defer g.mu.Unlock()
	g.note()
	g.busy++
	if !v.waiting {
		return
	}
	v.ends()
	if v.counts {
		g.out.waits = append(g.out.waits, g.now()-v.at)
		g.out.judge(v.told, g.now())
		g.first.judge(v.told[:min(1, len(v.told))], g.now())
	}
}

// leaves is a caller that got nothing.
func (v *visitor) leaves() {
	g := v.gale
	g.mu.Lock()
	defer g.mu.Unlock()
	if !v.waiting {
		return
	}
	g.note()
	v.ends()
	if v.counts {
		g.out.gaveUps++
	}
}

// ends is the end of a wait; the gale's lock must be held.
func (v *visitor) ends() {
	g := v.gale
	g.waiters--
	if v.counts {
		g.out.waiters++
		g.out.attempts += v.attempts
		g.out.over = g.now()
	}
}

func (v *visitor) fails(err error) {
	v.gale.mu.Lock()
	defer v.gale.mu.Unlock()
	if v.gale.errors++; v.gale.firstError == "" {
		v.gale.firstError = err.Error()
	}
}

// meter is a caller's connection, with a look at what goes over it.
type meter struct {
	visitor *visitor
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (m *meter) RoundTrip(r *http.Request) (*http.Response, error) {
	creates := strings.HasSuffix(r.URL.Path, "/v1/admissions")
	if r.Method != http.MethodPost || !creates && !strings.HasSuffix(r.URL.Path, "/attempt") {
		return m.next.RoundTrip(r)
	}
	m.visitor.calls()
	sent := time.Now()
	resp, err := m.next.RoundTrip(r)
	if creates && err == nil {
		m.visitor.took(time.Since(sent))
	}
	if err != nil {
		m.visitor.hears(0)
		return nil, err
	}
	return resp, m.look(resp)
}

// look reads what an answer tells that is no yes.
func (m *meter) look(resp *http.Response) error {
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusCreated {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var told struct {
		RetryAfterMS int64 `json:"retry_after_ms"`
	}
	_ = json.Unmarshal(body, &told) // what is none of ours tells nothing
	m.visitor.hears(time.Duration(told.RetryAfterMS) * time.Millisecond)
	return nil
}

// lines counts connections.
type lines struct {
	mu           sync.Mutex // guards what follows
	dialed, most int
	open         int
}

// transport is one caller's own.
func (l *lines) transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.change(1)
		return &line{Conn: c, ends: sync.OnceFunc(func() { l.change(-1) })}, nil
	}
	return t
}

func (l *lines) change(by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open += by; by > 0 {
		l.dialed++
		l.most = max(l.most, l.open)
	}
}

// line is a connection that says when it ends.
type line struct {
	net.Conn
	ends func()
}

// Close implements net.Conn.
func (l *line) Close() error {
	l.ends()
	return l.Conn.Close()
}
