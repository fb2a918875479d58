package control

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/registry"
)

const (
	followEvery  = 3 * time.Second  // between looks whether the registry moved
	readEvery    = 30 * time.Second // the registry is read, moved or not
	pauseBetween = 50 * time.Millisecond
	dialsAtOnce  = 64
	dialWithin   = 10 * time.Second
	firstRedial  = 2 * time.Second // the window of the first wait; each next one is twice as long
	lastRedial   = 30 * time.Second
	stableAfter  = 10 * time.Second // a connection that lasted so long was a good one
	tellAtOnce   = 32
)

// Follow keeps this replica in step with the registry until ctx ends: it connects to whoever is
// registered and has an endpoint, again and again and wherever it moves to; it lets go of what
// was buried, and of nothing else; it tells hosts what their state orders, and the registry what
// hosts say of themselves. Without a dialer it connects to nobody.
func (g *Gateway) Follow(ctx context.Context, d Dialer) {
	f := following{gateway: g, dialer: d, dials: make(chan struct{}, dialsAtOnce), conns: map[string]*followed{}}
	defer f.wait.Wait()
	read := g.Now()
	force := true
	for ctx.Err() == nil {
		if force || g.Now()-read >= readEvery || g.registryMoved(ctx) {
			if err := g.readRegistry(ctx); err == nil {
				read = g.Now()
			} else if ctx.Err() == nil {
				g.Log.Warn("the registry of hosts was not read; this replica goes on with what it knows", "err", err)
			}
		}
		f.connect(ctx)
		f.tell(ctx)
		force = f.pause(ctx)
	}
}

// following is what Follow does.
type following struct {
	gateway *Gateway
	dialer  Dialer
	dials   chan struct{} // holds one for each dial under way
	conns   map[string]*followed
	wait    sync.WaitGroup // for all that it began
}

// followed is one host that is connected, or is to be.
type followed struct {
	endpoint string
	stop     context.CancelFunc
	over     chan struct{} // closed when nothing of it is left
}

// pause waits until there may be something to do; true when somebody said so.
func (f *following) pause(ctx context.Context) bool {
	sleep(ctx, pauseBetween) // what comes in a burst is looked at once
	t := time.NewTimer(followEvery)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-f.gateway.looks:
		return true
	}
	return false
}

// connect begins what is new or has moved, and ends what is buried or moved away.
func (f *following) connect(ctx context.Context) {
	if f.dialer == nil {
		return
	}
	g := f.gateway
	g.mu.Lock()
	wanted := map[string]registry.Host{}
	for id, h := range g.known.hosts {
		if h.State != registry.Buried && h.Endpoint != "" {
			wanted[id] = h
		}
	}
	g.mu.Unlock()
	former := map[string]*followed{}
	for id, c := range f.conns {
		if h, ok := wanted[id]; !ok || h.Endpoint != c.endpoint {
			c.stop()
			delete(f.conns, id)
			former[id] = c
		}
	}
	for id, h := range wanted {
		if f.conns[id] == nil {
			f.begin(ctx, h, former[id])
		}
	}
}

// begin keeps a connection to a host, once what was there before is over.
func (f *following) begin(ctx context.Context, h registry.Host, former *followed) {
	ctx, stop := context.WithCancel(ctx)
	c := &followed{endpoint: h.Endpoint, stop: stop, over: make(chan struct{})}
	f.conns[h.ID] = c
	f.wait.Go(func() {
		defer close(c.over)
		defer stop()
		if former != nil {
			<-former.over
		}
		f.keep(ctx, h)
	})
}

// keep holds a connection to a host until ctx ends. Waits are drawn at random, so that hosts
// that were lost together are not dialled together.
func (f *following) keep(ctx context.Context, h registry.Host) {
	g := f.gateway
	for try := 0; ; try++ {
		began := g.Now()
		err := f.once(ctx, h)
		if ctx.Err() != nil {
			g.unconnected(h.ID, "")
			return
		}
		if g.Now()-began >= stableAfter {
			try = 0
		}
		if try == 0 || errors.Is(err, errLost) {
			g.Log.Warn("a host is not connected; it is dialled again", "host", h.ID, "endpoint", h.Endpoint, "err", err)
		} else {
			g.Log.Debug("a host is not connected", "host", h.ID, "endpoint", h.Endpoint, "err", err)
		}
		g.unconnected(h.ID, err.Error())
		sleep(ctx, f.redialAfter(try))
	}
}

// errLost says that there was a connection.
var errLost = errors.New("the connection is over")

// once dials a host and tends it for as long as the connection lasts.
func (f *following) once(ctx context.Context, h registry.Host) error {
	select {
	case f.dials <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	dialling, cancel := context.WithTimeout(ctx, dialWithin)
	conn, err := f.dialer.Dial(dialling, h)
	cancel()
	<-f.dials
	if err != nil {
		return err
	}
	defer conn.Close()
	f.gateway.unconnected(h.ID, "")
	err = f.gateway.Attach(ctx, conn, conn)
	return errors.Join(errLost, err)
}

// redialAfter is how long to wait after so many tries in a row.
func (f *following) redialAfter(try int) time.Duration {
	window := min(firstRedial<<min(try, 8), lastRedial)
	return window/8 + time.Duration(f.gateway.Rand()%uint64(window*7/8))
}

// unconnected notes why a host is not connected; nothing for one that is, or whose turn comes.
func (g *Gateway) unconnected(id, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if why == "" {
		delete(g.known.why, id)
		return
	}
	g.known.why[id] = strings.ReplaceAll(why, "\n", ": ") // it is shown in a table's line
}

// tell brings hosts and the registry to say the same of each other. What does not succeed is
// found again by the next look.
func (f *following) tell(ctx context.Context) {
	g := f.gateway
	if said := g.undescribed(); len(said) > 0 {
		if err := g.Store.Describe(ctx, said); err != nil && ctx.Err() == nil {
			g.Log.Warn("what hosts say of themselves was not written", "err", err)
		}
	}
	g.tellOrders(ctx)
}

// tellOrders tells connected hosts what is ordered of them, some at once. Who does not hear it
// is told again.
func (g *Gateway) tellOrders(ctx context.Context) {
	var telling errgroup.Group
	telling.SetLimit(tellAtOnce)
	for _, id := range g.disobedient() {
		telling.Go(func() error {
			if !g.toldIntake(ctx, id) && ctx.Err() == nil {
				g.Log.Warn("a host was not told its state; it is told again", "host", id)
			}
			return nil
		})
	}
	_ = telling.Wait() // none fails
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
