package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// app is one app. Its state is changed by its own goroutine alone, see cycle.go.
type app struct {
	host *appHost
	spec Spec

	mu       sync.Mutex    // guards what follows
	record   Record        // as it is on disk
	live     *live         // while it can be asked
	leaving  bool          // it is being hibernated: who comes now waits for the next wake
	place    *Place        // while it waits
	problem  *problem      // why the last wake came to nothing for good
	waiters  int           // requests that wait for it
	open     int           // requests that it answers
	wantedAt time.Time     // by the last request
	usedAt   time.Time     // the last request ended
	changed  chan struct{} // closed at each change, and made anew

	wanted chan struct{} // holds one token: somebody wants it
	gone   chan struct{} // holds one token: somebody found its process gone
}

// lost is where a request's context keeps a bool: that its app went away before it began to answer.
type lost struct{}

// live is one boot of an app.
type live struct {
	socket string
	proxy  *httputil.ReverseProxy
}

// Place is where a waiting app stands, as the gate last told.
type Place struct {
	Position int64     `json:"position,omitempty"` // 1 is next
	For      string    `json:"waiting_for,omitempty"`
	Pool     string    `json:"pool,omitempty"`
	Busy     int64     `json:"busy,omitempty"`
	Cap      *int64    `json:"cap,omitempty"`
	Turn     time.Time `json:"turn,omitzero"` // when it may expect to be woken
	Why      string    `json:"why,omitempty"` // where it is not in a line: what keeps it
}

// problem is a no that waiting does not change: a class that does not exist, a program that does not start.
// It is no state. The app sleeps, and the next request after a pause tries again.
type problem struct {
	err   error
	until time.Time
	pause time.Duration
}

// errWaiting says that a request's time was over before the app could answer.
var errWaiting = errors.New("the app waits for capacity")

func newApp(h *appHost, spec Spec) (*app, error) {
	a := &app{
		host: h, spec: spec,
		changed: make(chan struct{}), wanted: make(chan struct{}, 1), gone: make(chan struct{}, 1),
	}
	var err error
	a.record, err = readRecord(a.recordPath())
	return a, err
}

func (a *app) recordPath() string { return filepath.Join(a.host.dir, a.spec.Name+".json") }

// key names the admission of this app, whoever asks for it.
func (a *app) key() string { return "app:" + a.spec.Name }

// socket is where one boot of the app listens. An end that comes late can so not be taken for the next.
func (a *app) socket(admission *api.Admission) string {
	return a.socketOf(admission.ID, admission.Epoch)
}

func (a *app) socketOf(id string, epoch int64) string {
	return filepath.Join(a.host.dir, a.spec.Name, fmt.Sprintf("%s-%d.sock", id, epoch))
}

// enter waits until the app can be asked, and counts one request in. It ends with the problem of a wake
// that came to nothing, or with errWaiting when ctx does.
func (a *app) enter(ctx context.Context) (*live, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiters++
	defer func() { a.waiters--; a.wantedAt = time.Now() }()
	for {
		switch {
		case a.live != nil && !a.leaving:
			a.open++
			return a.live, nil
		case a.problem != nil && time.Now().Before(a.problem.until):
			return nil, a.problem.err
		case ctx.Err() != nil:
			return nil, errWaiting
		}
		if a.record.State != Waiting { // else the wake that is under way is this one's, too
			say(a.wanted)
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		a.mu.Lock()
	}
}

// leave counts one request out.
func (a *app) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
	a.usedAt = time.Now()
}

// isGone says that nobody listens any more where this boot did.
func (a *app) isGone(l *live) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live == l {
		a.live = nil
		say(a.gone)
	}
}

// stillWanted says whether somebody waits, or did lately.
func (a *app) stillWanted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiters > 0 || time.Since(a.wantedAt) < a.host.patience
}

// becomes changes the state, on disk first. A disk that is full stops no app: what was written before is
// true still of what a restart would find under the key.
func (a *app) becomes(s State, why string, change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.record.step(time.Now(), s, why)
	if change != nil {
		change()
	}
	if s != Running {
		a.record.Admission, a.record.Epoch = "", 0
	}
	if err := a.record.write(a.recordPath()); err != nil {
		a.host.log.Error("the state of an app was not written down", "app", a.spec.Name, "err", err)
	}
	a.host.log.Info("state", "app", a.spec.Name, "is", s, "why", why)
	a.tell()
}

// tell wakes whoever waits for a change; a.mu is held.
func (a *app) tell() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// stands notes where the app is in a line.
func (a *app) stands(p Place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.place = &p
}

func (a *app) state() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.record.State
}

func say(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// answers says whether somebody listens there.
func answers(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func newLive(socket string) *live {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 10 * time.Second,
	}
	return &live{socket: socket, proxy: &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "app", r.In.Host
			r.SetXForwarded()
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, _ error) {
			*r.Context().Value(lost{}).(*bool) = true
		},
	}}
}
