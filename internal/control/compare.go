package control

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/host"
)

// A replica compares what the store has on each host with what the host says that it holds, all
// of them with one query, by sums. Only a host whose sums differ is reconciled, row by row.
//
// The two sums of a host are of two instants, so that what is under way between them shows as a
// difference, and nobody is wrong:
//
//	under way                                  the host's word   the store
//	reserved, Settle not written               has it            placing: on no host
//	settled, the host's word is older          nothing yet       admitted
//	redeemed, not tracked                      booting           admitted: alike
//	tracked, Track not written                 running           admitted
//	ended, lapsed or evicted, End not written  nothing, untold   on the host
//	ended, End written, not acknowledged       nothing, untold   nothing
//	Leave written, the host not asked          has it            releasing
//	released there, End not written            nothing           releasing
//	kept for a restart, Reopen not written     reserved          running
//	Move written before the host let go        has it            placing, or on another host
//	superseded, and told to stop               stopping: not in  nothing: alike
//
// Each takes as long as a call or two, and the host's word follows what it holds within a second.
// So what stands at one look is nothing yet; what stands at the next one, five seconds later, is
// reconciled. Whoever is so busy that it differs by chance at both is reconciled for nothing:
// rows are read before the host is asked, and each remedy is guarded by the epoch, so that
// nothing is ended or stopped that is merely under way.
//
// What the sums cannot see (package digest says how rarely), and what hosts alone record, is
// found by reconciling each host now and then anyway.
const (
	compareEvery  = 10 * time.Second
	compareAgain  = 5 * time.Second // after a look at which somebody differed
	compareInFull = 300             // seconds, over which the hosts are spread
	mostAtOnce    = 500             // hosts that one look has reconciled; the next one takes more
)

// CompareUntil has the hosts that this replica tends reconciled when they differ from the store,
// until ctx ends.
func (g *Gateway) CompareUntil(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	look := g.Now() + compareEvery
	for second := uint32(0); ; second++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		g.reconcileShare(second % compareInFull)
		if g.Now() < look {
			continue
		}
		wait := compareEvery
		if g.compare(ctx) {
			wait = compareAgain
		}
		look = g.Now() + wait
	}
}

// compare is one look. It says whether a host differs that did not at the last one.
func (g *Gateway) compare(ctx context.Context) (differ bool) {
	stored, err := g.Store.Holdings(ctx)
	if err != nil {
		if ctx.Err() == nil {
			g.Log.Warn("what hosts hold was not compared with the store; it is at the next look", "err", err)
		}
		return false
	}
	var leaving map[string]bool
	g.own.with(func(rows *admission.Book) { leaving = rows.Leaving() })
	asked := 0
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, a := range g.hosts {
		has := stored[id]
		switch {
		case a.link == nil || g.isBuried(id) || !a.heard || g.Now()-a.heardAt >= g.silentAfter():
			a.differed = false
		case !a.owed && !leaving[id] && a.verdict.Holding.Told && admission.Alike(&a.verdict.Holding, &has):
			a.differed = false
		case !a.owed && !a.differed:
			a.differed, differ = true, true
		case asked < mostAtOnce:
			a.reconcile()
			a.differed = false
			asked++
		}
	}
	return differ
}

// reconcileShare has those hosts reconciled whose turn it is, whether they differ or not.
func (g *Gateway) reconcileShare(turn uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.hosts {
		if a.turn == turn && a.link != nil {
			a.reconcile()
		}
	}
}

// turnOf spreads hosts evenly, and the same at every replica.
func turnOf(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return h.Sum32() % compareInFull
}

// reconcile has whoever tends the host reconcile it soon. Hold g.mu.
func (a *attached) reconcile() {
	a.owed = false
	select {
	case a.again <- struct{}{}:
	default: // it is about to
	}
}

// owe has a host reconciled by the next look: it could not be, now.
func (g *Gateway) owe(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.hosts[id]; a != nil {
		a.owed = true
	}
}

// take notes a host's newest word, and says whether it tells of room.
func (a *attached) take(v *host.Verdict, now, silence time.Duration) (roomy bool) {
	roomy = roomier(v, &a.verdict)
	newLife := v.Incarnation != a.verdict.Incarnation // and it holds nothing of the one before
	silent := now-a.heardAt >= silence                // and much may have been decided without it
	a.owed = a.owed || (a.heard && (newLife || silent))
	a.verdict, a.heardAt, a.heard = *v, now, true
	return roomy
}
