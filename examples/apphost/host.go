package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// Settings are what the command line says.
type Settings struct {
	Gate        *client.Client
	Agent       boot.Client
	Dir         string        // of records, sockets and the apps' folders
	Idle        time.Duration // after the last request, until an app is hibernated
	Patience    time.Duration // after the last request for one that waits, until its place is given up
	Hold        time.Duration // how long a request is held for an app to wake
	PageAfter   time.Duration // and a person's, who then sees where the app stands
	StartWithin time.Duration // how long a booted app may take until it listens
	Log         *slog.Logger
}

// appHost serves all apps. Each has a goroutine of its own, for as long as Run runs.
type appHost struct {
	gate        *client.Client
	agent       boot.Client
	dir         string
	idle        time.Duration
	patience    time.Duration
	hold        time.Duration
	pageAfter   time.Duration
	startWithin time.Duration
	log         *slog.Logger
	apps        []*app          // in the file's order
	named       map[string]*app // name -> app
	pools       pools
}

func newAppHost(s Settings, specs []Spec) (*appHost, error) {
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return nil, err
	}
	h := &appHost{
		gate: s.Gate, agent: s.Agent, dir: dir, idle: s.Idle, patience: s.Patience, hold: s.Hold, pageAfter: s.PageAfter,
		startWithin: s.StartWithin, log: s.Log, named: map[string]*app{},
	}
	for _, spec := range specs {
		if err := os.MkdirAll(filepath.Join(dir, spec.Name), 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of an app: %w", err)
		}
		a, err := newApp(h, spec)
		if err != nil {
			return nil, err
		}
		h.apps, h.named[spec.Name] = append(h.apps, a), a
	}
	return h, nil
}

// Run serves at the listener until ctx ends. The apps outlive it.
func (h *appHost) Run(ctx context.Context, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for _, a := range h.apps {
		all.Go(func() { a.run(ctx) })
	}
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	all.Go(func() {
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			server.Close()
		}
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Overview is what the status page shows.
type Overview struct {
	At    time.Time   `json:"at"`
	Gate  string      `json:"gate,omitempty"` // why it does not answer
	Pools []api.Pool  `json:"pools"`
	Apps  []AppStatus `json:"apps"`
}

// AppStatus is one app as it stands now.
type AppStatus struct {
	Name     string `json:"name"`
	Class    string `json:"class"`
	State    State  `json:"state"`
	Place    *Place `json:"place,omitempty"`
	Problem  string `json:"problem,omitempty"` // of its last wake, if that came to nothing for good
	Open     int    `json:"open"`              // requests that it answers now
	IdleInMS int64  `json:"idle_in_ms,omitempty"`
	Steps    []Step `json:"steps"`
}

func (h *appHost) overview(ctx context.Context) Overview {
	o := Overview{At: time.Now()}
	var err error
	if o.Pools, err = h.pools.look(ctx, h.gate); err != nil {
		o.Gate = err.Error()
	}
	for _, a := range h.apps {
		o.Apps = append(o.Apps, a.status())
	}
	return o
}

func (a *app) status() AppStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := AppStatus{Name: a.spec.Name, Class: a.spec.Class, State: a.record.State, Open: a.open, Steps: append([]Step{}, a.record.Steps...)}
	if a.problem != nil {
		s.Problem = a.problem.err.Error()
	}
	switch a.record.State {
	case Waiting:
		if a.place != nil {
			p := *a.place
			s.Place = &p
		}
	case Running:
		if a.open == 0 {
			s.IdleInMS = max(time.Until(a.usedAt.Add(a.host.idle)), 0).Milliseconds()
		}
	}
	return s
}

// pools remembers for a second what the gate said of its pools, however many look at the page.
type pools struct {
	mu   sync.Mutex // guards what follows, and has one ask for all
	at   time.Time
	last []api.Pool
	err  error
}

func (p *pools) look(ctx context.Context, gate *client.Client) ([]api.Pool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < time.Second {
		return p.last, p.err
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	list, err := gate.Pools(bounded)
	if p.at, p.err = time.Now(), err; err == nil {
		p.last = list.Pools
	}
	return p.last, p.err
}
