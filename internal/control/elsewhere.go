package control

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
)

// This file finds what hosts alone record and other replicas placed: the hosts know whose it is,
// and are asked. It is for lists, and for keys that nobody here knows; the passages go without.

// recorded is what the hosts said when they were last asked.
type recorded struct {
	mu   sync.Mutex // guards held
	held []recordedAt
}

// recordedAt is one with its host.
type recordedAt struct {
	host.Recorded
	at string
}

// recordsByHost says whether there is a class that hosts alone record.
func (g *Gateway) recordsByHost() bool {
	fleet := g.Fleet()
	return fleet != nil && slices.ContainsFunc(fleet.Classes, func(c config.Class) bool { return c.Record == config.ByHost })
}

// elsewhere asks the hosts that can be heard what they alone record, and returns it as rows: of
// what this replica knows itself there is none among them. A host that does not answer in time
// is left out.
func (g *Gateway) elsewhere(ctx context.Context) (rows []pool.Row) {
	if !g.recordsByHost() {
		return nil
	}
	for _, r := range g.askAll(ctx) {
		known := false
		g.own.with(func(b *admission.Book) { _, known = b.ByID(r.ID) })
		if !known && admission.OfHost(r.ID, r.at) && r.Identity.Consumer != "" {
			rows = append(rows, g.rowOf(r.ID, r.at, &r.Placed, pool.Row{}))
		}
	}
	return rows
}

// askAll asks all hosts, once for all who came before that began.
func (g *Gateway) askAll(ctx context.Context) []recordedAt {
	g.sweep.share(recordedKind, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
		defer cancel()
		all := g.askLinks(ctx)
		g.recorded.mu.Lock()
		defer g.recorded.mu.Unlock()
		g.recorded.held = all
	})
	g.recorded.mu.Lock()
	defer g.recorded.mu.Unlock()
	return g.recorded.held // of that round, or of a later one
}

// recordedKind is no kind of ask.
const recordedKind = "\x00recorded"

func (g *Gateway) askLinks(ctx context.Context) (all []recordedAt) {
	var asking errgroup.Group
	asking.SetLimit(dialsAtOnce)
	var mu sync.Mutex // guards all
	for _, link := range g.links() {
		asking.Go(func() error {
			held, err := link.Holding(ctx)
			if err != nil {
				g.Log.Debug("a host does not say what it alone records", "host", link.ID(), "err", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range held.Recorded {
				all = append(all, recordedAt{held.Recorded[i], link.ID()})
			}
			return nil
		})
	}
	_ = asking.Wait() // none of them fails
	return all
}

// keyElsewhere finds a key that another replica placed; the newest, if there are two.
func (g *Gateway) keyElsewhere(ctx context.Context, consumer, key string) (pool.Row, bool) {
	rows := slices.DeleteFunc(g.elsewhere(ctx), func(r pool.Row) bool { return r.Consumer != consumer || r.Key != key })
	if len(rows) == 0 {
		return pool.Row{}, false
	}
	return slices.MaxFunc(rows, func(a, b pool.Row) int { return cmp.Compare(a.ID, b.ID) }), true
}
