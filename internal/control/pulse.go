package control

import (
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// PulseUntil writes that this replica hears, and which hosts it heard, until ctx ends. It
// counts what all replicas freed, and wakes who waits here when another one freed something.
func (g *Gateway) PulseUntil(ctx context.Context) {
	since, freed := g.Now(), map[string]int64(nil)
	for {
		tick := time.After(g.pulseEvery())
		began := g.Now()
		freed = g.watchFreed(ctx, freed)
		g.shareHosts(ctx)
		if err := g.pulse(ctx, g.heardSince(since)); err == nil {
			since = began
		} else if ctx.Err() == nil {
			g.Log.Warn("pulse not written; when it stays so, every slot gets its time again afterwards", "err", err)
		}
		if !g.wakeUntil(ctx, tick) {
			return
		}
	}
}

// heardAtOnce is how many leases are renewed in one transaction: whoever claims meanwhile waits
// for no more than that.
const heardAtOnce = 2000

// pulse writes the pulse, and who was heard.
func (g *Gateway) pulse(ctx context.Context, heard []string) error {
	for len(heard) > heardAtOnce {
		if _, err := g.Store.Pulse(ctx, heard[:heardAtOnce]); err != nil {
			return err
		}
		heard = heard[heardAtOnce:]
	}
	p, err := g.Store.Pulse(ctx, heard)
	if err == nil {
		g.tellDeaf(p.Deaf())
	}
	return err
}

// tellDeaf says when more than half of the hosts fall silent together, and when they no longer
// are: meanwhile no host dies, and what the silent ones hold keeps its slots.
func (g *Gateway) tellDeaf(deaf bool) {
	switch was := g.deaf.Swap(deaf); {
	case deaf && !was:
		g.Log.Error("more than half of the hosts are silent: none is taken for dead before half of them were heard for as long as a lease lasts. " +
			"Look at the network; where they are gone for good, plimsoll hosts says whom to bury")
	case was && !deaf:
		g.Log.Info("at least half of the hosts are heard again")
	}
}

// pulseEvery is how often the pulse is due for the slots that live the shortest.
func (g *Gateway) pulseEvery() time.Duration {
	gap := pool.PulseGap
	if fleet := g.Fleet(); fleet != nil {
		s := fleet.Settings()
		gap = pool.GapFor(s.ShortestLife())
	}
	return pool.PulseFor(gap)
}

// lookAfter is how soon a hint of another replica has this one look for a new configuration.
const lookAfter = time.Second

// wakeUntil passes on what other replicas free or change, until the next pulse is due.
func (g *Gateway) wakeUntil(ctx context.Context, tick <-chan time.Time) bool {
	var look <-chan time.Time // one look answers all hints that came before it
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			if look != nil {
				g.loadAgain(ctx)
			}
			return true
		case <-g.Store.Freed():
			g.wakes.wake()
			g.lookAtHosts()
			if look == nil {
				look = time.After(lookAfter)
			}
		case <-look:
			look = nil
			g.loadAgain(ctx)
		}
	}
}

// Heard counts the hosts that are connected and not silent.
func (g *Gateway) Heard() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.hosts {
		if a.link != nil && a.heard && g.Now()-a.heardAt < g.silentAfter() {
			n++
		}
	}
	return n
}

// heardSince names the hosts whose word has come since then.
func (g *Gateway) heardSince(then time.Duration) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var heard []string
	for id, a := range g.hosts {
		if a.heard && a.heardAt >= then {
			heard = append(heard, id)
		}
	}
	return heard
}
