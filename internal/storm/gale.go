package storm

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/pool"
)

// gale is one storm of real clients, as they see it themselves.
type gale struct {
	o     *RealOptions
	at    *place
	mode  pool.Mode
	began time.Time     // of the storm; later than now before it
	calm  chan struct{} // closed when the storm is over and nobody waits
	lines lines

	mu         sync.Mutex // guards what follows
	out        history
	first      history         // of the hints that each was told first alone
	posts      []time.Duration // how long each create of the storm took
	coming     int             // who has not been answered for good
	waiters    int
	busy       int64
	since      time.Duration // when busy or waiters changed last
	errors     int
	firstError string
}

func newGale(o *RealOptions, at *place, mode pool.Mode) *gale {
	return &gale{o: o, at: at, mode: mode, calm: make(chan struct{}), began: time.Now().Add(o.Before)}
}

// now is from the beginning of the storm.
func (g *gale) now() time.Duration { return time.Since(g.began) }

// blow has all callers come, and returns when each has given back what it got.
func (g *gale) blow(ctx context.Context, all []arrival) error {
	g.coming = len(all)
	var callers sync.WaitGroup
	for _, a := range all {
		callers.Go(func() { g.come(ctx, a) })
	}
	over := make(chan struct{})
	go func() { callers.Wait(); close(over) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-over:
			g.o.Progress(true, "")
			return context.Cause(ctx)
		case <-tick.C:
			g.second()
		}
	}
}

// second notes how it stands, and says so.
func (g *gale) second() {
	g.mu.Lock()
	waiters, busy := g.waiters, g.busy
	if g.now() > 0 {
		g.out.waiting = append(g.out.waiting, waiters)
	}
	g.mu.Unlock()
	g.o.Progress(false, "mode %s, %.0f s from the beginning of the storm: %d wait, %d hold a slot", g.mode, g.now().Seconds(), waiters, busy)
}

// come is one caller from its first call to the end of its sandbox.
func (g *gale) come(ctx context.Context, a arrival) {
	answered := sync.OnceFunc(g.answered)
	defer answered()
	if !sleep(ctx, a.at-g.now(), nil) {
		return
	}
	v := &visitor{gale: g, at: g.now(), counts: a.at >= 0}
	transport := g.lines.transport()
	defer transport.CloseIdleConnections()
	c, err := client.New(g.at.address, g.at.token, client.WithHTTPClient(&http.Client{Transport: &meter{v, transport}}))
	if err != nil {
		v.fails(err)
		return
	}
	v.begins()
	q := api.AdmissionRequest{Class: g.at.class(g.mode), Mode: api.WaitMode(g.mode)}
	held := false
	err = c.Hold(ctx, q, client.Options{Wait: g.o.Deadline, GiveUpPlace: true}, func(ctx context.Context, _ *client.Lease) error {
		held = true
		v.admitted()
		answered()
		sleep(ctx, a.life, g.calm)
		return nil
	})
	if held {
		g.released()
	} else {
		v.leaves()
	}
	if err = errors.Join(err, c.Close()); ctx.Err() == nil && failed(err) {
		v.fails(err)
	}
}

// failed says that an end is neither a yes nor a not now.
func failed(err error) bool {
	return err != nil && (!client.NotNow(err) || errors.As(err, new(*client.NotGivenBack)))
}

// answered notes that one more caller has its answer for good.
func (g *gale) answered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.coming--; g.coming == 0 {
		close(g.calm)
	}
}

// released notes that a slot was given back.
func (g *gale) released() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.note()
	g.busy--
}

// note counts the time since the last change in which slots were free and somebody waited; g.mu must
// be held.
func (g *gale) note() {
	now := g.now()
	if free := g.o.Cap - g.busy; now > 0 && g.waiters > 0 && free > 0 {
		g.out.idle += (now - max(g.since, 0)) * time.Duration(min(free, int64(g.waiters)))
	}
	g.since = now
}

// sleep is false where ctx ended first. It ends early with calm.
func sleep(ctx context.Context, d time.Duration, calm <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-calm:
	case <-t.C:
	}
	return true
}
