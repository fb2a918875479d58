package control

import (
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/pool"
)

// rate is how fast one pool frees slots, and where callers without a place stand.
type rate struct {
	slots *hint.Estimator
	book  hint.Book
}

// rateOf returns a pool's rate; g.mu must be held.
func (g *Gateway) rateOf(name string) *rate {
	r := g.rates[name]
	if r == nil {
		r = &rate{slots: hint.NewEstimator(hint.DefaultHalfLife)}
		r.slots.Observe(g.Now(), 0)
		g.rates[name] = r
	}
	return r
}

// freed counts a slot of a pool that was given back.
func (g *Gateway) freed(poolName string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rateOf(poolName).slots.Observe(g.Now(), 1)
}

// placed notes the pool of what a host holds now, so that its end counts for that pool's
// rate without asking the store.
func (g *Gateway) placed(r pool.Row) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.hosts[r.Host]; a != nil {
		a.pools[r.ID] = r.Pool
	}
}

// holds notes all that a host holds by the store's word, and forgets what ended unseen.
func (g *Gateway) holds(hostID string, rows []pool.Row) {
	pools := make(map[string]string, len(rows))
	for _, r := range rows {
		pools[r.ID] = r.Pool
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hosts[hostID].pools = pools
}

// over counts the end of what a host held. One that was never noted is not counted: a rate
// is an estimate, and whose pool it was is not worth a question to the store.
func (g *Gateway) over(hostID, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.hosts[hostID]
	if name, ok := a.pools[id]; ok {
		delete(a.pools, id)
		g.rateOf(name).slots.Observe(g.Now(), 1)
	}
}

// later is an appointment for a caller who waits for nothing that is measured.
func (g *Gateway) later() time.Duration {
	return hint.Appointment(hint.InQueue(1), 0, hint.DefaultBounds(), g.Rand())
}

// appointment is when a caller should come back.
type appointment struct {
	retry   time.Duration
	poll    time.Duration
	receipt string
}

// appoint makes an appointment for one caller, from its place in the line, or, where it
// holds none, from a place behind those refused before it; and writes it on its receipt.
func (c call) appoint(poolName, key string, position int64) appointment {
	g := c.gateway
	g.mu.Lock()
	r := g.rateOf(poolName)
	slots, _ := r.slots.Rate(g.Now())
	place := hint.InQueue(position)
	if position == 0 {
		place = r.book.Place(g.Now(), 1, slots)
	}
	g.mu.Unlock()
	retry := hint.Appointment(place, slots, hint.DefaultBounds(), g.Rand())
	a := appointment{retry: retry, poll: hint.PollAfter(retry, LongestPoll)}
	now := g.storeNow().Wall()
	held := c.held(key).Again(now, now.Add(retry))
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
