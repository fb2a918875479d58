package control

import (
	"context"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/table"
)

// SweepHosts is how many hosts are asked again before a refusal: the most promising.
const SweepHosts = 32

const (
	sweepWithin = 50 * time.Millisecond
	sweepEvery  = 10 * time.Second
)

// sweeper shares one look at the hosts among all who need one: a sweep counts only for
// those who came before it began, so that what it hears is newer than what they knew.
type sweeper struct {
	mu   sync.Mutex           // guards next and busy
	next map[string]*oneSweep // kind -> the sweep that has not begun
	busy map[string]bool      // kind -> one is under way
}

type oneSweep struct{ done chan struct{} }

// share joins the next sweep of a kind, and runs it when nobody else does.
func (s *sweeper) share(kind string, sweep func()) {
	s.mu.Lock()
	if s.next == nil {
		s.next, s.busy = map[string]*oneSweep{}, map[string]bool{}
	}
	mine := s.next[kind]
	if mine == nil {
		mine = &oneSweep{done: make(chan struct{})}
		s.next[kind] = mine
	}
	lead := !s.busy[kind]
	s.busy[kind] = true
	s.mu.Unlock()
	if lead {
		go s.lead(kind, sweep)
	}
	<-mine.done
}

// lead runs sweeps of a kind until nobody waits for one.
func (s *sweeper) lead(kind string, sweep func()) {
	for {
		s.mu.Lock()
		one := s.next[kind]
		delete(s.next, kind)
		if one == nil {
			delete(s.busy, kind)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		sweep()
		close(one.done)
	}
}

// sweepFor asks the most promising hosts for their newest word: no capacity refusal
// leaves from what was only remembered.
func (g *Gateway) sweepFor(ctx context.Context, kind string, ask *gate.Ask, pin *table.PickOptions) {
	g.sweep.share(kind, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepWithin)
		defer cancel()
		var asked sync.WaitGroup
		for _, link := range g.promising(ask, pin) {
			asked.Go(func() {
				if v, err := link.Verdict(ctx); err == nil {
					g.observe(v)
				}
			})
		}
		asked.Wait()
	})
}

// promising returns the links of the hosts with the most room, and of those whose valve
// may have opened meanwhile; of a host that is demanded, only its own.
func (g *Gateway) promising(ask *gate.Ask, pin *table.PickOptions) []Link {
	g.mu.Lock()
	defer g.mu.Unlock()
	if pin.Require != "" {
		if a := g.hosts[pin.Require]; a != nil && a.link != nil {
			return []Link{a.link}
		}
		return nil
	}
	var links []Link
	seen := map[string]bool{}
	for _, c := range g.table.Promising(g.Now(), ask, pin, nil, SweepHosts) {
		if a := g.hosts[c.Host]; a != nil && a.link != nil {
			links, seen[c.Host] = append(links, a.link), true
		}
	}
	for id, a := range g.hosts {
		if len(links) < SweepHosts && !seen[id] && a.link != nil && !g.isBuried(id) {
			links = append(links, a.link)
		}
	}
	return links
}

// SweepUntil keeps the store tidy until ctx ends: lost placings, waiters out of patience,
// slots of which nothing is heard, dead hosts, rows that ended a day ago.
func (g *Gateway) SweepUntil(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := g.Store.Sweep(ctx)
		if err != nil && ctx.Err() == nil {
			g.Log.Warn("sweep failed; the next one makes up for it", "err", err)
		}
		if len(changed) > 0 {
			g.wakes.wake()
		}
		g.loadAgain(ctx)
	}
}

func (g *Gateway) loadAgain(ctx context.Context) {
	if err := g.Load(ctx); err != nil && ctx.Err() == nil {
		g.Log.Error("configuration not loaded; the former one stays in force here", "err", err)
	}
}
