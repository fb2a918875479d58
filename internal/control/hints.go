package control

import (
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/pool"
)

// deskOf returns who makes a pool's appointments; g.mu must be held.
func (g *Gateway) deskOf(name string) *hint.Desk {
	d := g.desks[name]
	if d == nil {
		d = hint.NewDesk(g.Now())
		g.desks[name] = d
	}
	return d
}

// watchFreed takes the slots that pools freed since it was last asked, whichever replica
// freed them, into their rates. before is what it returned then; nil at first.
func (g *Gateway) watchFreed(ctx context.Context, before map[string]int64) map[string]int64 {
	totals, err := g.Store.FreedTotals(ctx)
	if err != nil {
		g.unread(err)
		return before
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, n := range totals {
		if before != nil {
			g.deskOf(name).Freed(g.Now(), n-before[name])
		}
	}
	return totals
}

// later is an appointment for a caller who waits for nothing that is measured.
func (g *Gateway) later() time.Duration {
	rand := g.Rand()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deskOf("").Soon(g.Now(), rand)
}

// appointment is when a caller should come back.
type appointment struct {
	retry   time.Duration
	receipt string
}

// due is in how long a caller should come back, and in how long its turn comes: farther off where
// nobody is told to stay away for so long.
type due struct{ in, turn time.Duration }

// comeBack is when a refused caller should. Nobody's turn is waited for where the store did not
// answer: it may at any moment, to all who ask.
func (c call) comeBack(a admission.Answer) due {
	if a.Code == api.Unavailable {
		in := c.gateway.later()
		return due{in, max(in, c.leftToTurn())}
	}
	return c.turn(a.Row.Pool, placeOf(a))
}

// turn is when a caller's turn comes, from its place in the line, or, where it holds none, from a
// place behind those refused before it.
func (c call) turn(poolName string, position int64) due {
	g := c.gateway
	rand, left := g.Rand(), c.leftToTurn()
	g.mu.Lock()
	defer g.mu.Unlock()
	desk := g.deskOf(poolName)
	if position > 0 {
		in := desk.Turn(g.Now(), position, rand)
		return due{in, in}
	}
	in, turn := desk.Refused(g.Now(), left, rand)
	return due{in, turn}
}

// leftToTurn is in how long the turn comes that a caller was given when it was refused before; zero, or
// less, where there is none, or none any more.
func (c call) leftToTurn() time.Duration {
	turn := c.held(c.key).Turn
	if turn.IsZero() {
		return 0
	}
	return turn.Sub(c.gateway.storeNow().Wall())
}

// pollAfter is when a waiter who was just told its turn should be back for it.
func (g *Gateway) pollAfter(poolName string, position int64, turn time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deskOf(poolName).PollAfter(g.Now(), position, turn, LongestPoll)
}

// appoint makes an appointment for one caller, and writes it on its receipt.
func (c call) appoint(key string, d due) appointment {
	g := c.gateway
	a := appointment{retry: d.in}
	now := g.storeNow().Wall()
	held := c.held(key).Again(now, now.Add(d.in), now.Add(d.turn))
	text, err := g.receipts.Load().AppendMint(nil, held, c.who.Name, key)
	if err != nil {
		g.Log.Error("receipt not minted", "err", err)
	}
	a.receipt = string(text)
	return a
}

// held is the receipt that the caller handed back; one that is not ours counts as none.
func (c call) held(key string) hint.Receipt {
	if c.receipt == "" {
		return hint.Receipt{}
	}
	r, err := c.gateway.receipts.Load().Parse(c.receipt, c.who.Name, key)
	if err != nil {
		return hint.Receipt{}
	}
	return r
}

// waitedFor is how long ago the caller was first told no, or took its place; ok is false
// for one that was admitted at once.
func (c call) waitedFor(r pool.Row) (time.Duration, bool) {
	if first := c.held(r.Key).First; !first.IsZero() {
		return max(r.AdmittedAt.Wall().Sub(first), 0), true
	}
	if r.Waited {
		return r.AdmittedAt.Since(r.QueuedAt), true
	}
	return 0, false
}

// storeNow is the store's clock as this replica last compared it with its own, late by the
// way there and back: for people and figures, never for a decision.
func (g *Gateway) storeNow() pool.Time {
	return pool.Time(g.Now().Milliseconds() + g.storeOffset.Load())
}

// queuedFor is how long a row has been in the line. Clocks that were compared may still
// disagree by a little; nobody has waited for less than nothing.
func (g *Gateway) queuedFor(r pool.Row) time.Duration {
	return max(g.storeNow().Since(r.QueuedAt), 0)
}

// compareClocks reads the store's clock.
func (g *Gateway) compareClocks(ctx context.Context) {
	now, err := g.Store.Now(ctx)
	if err == nil {
		g.storeOffset.Store(int64(now) - g.Now().Milliseconds())
	}
}
