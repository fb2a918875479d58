package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

const (
	burstCap      = 6
	burstReserved = 2
	burstAsks     = 1000
	burstJobs     = 30 // in the line, of one CI worker
)

// testBurstAgainstAShare has the CI ask for 50 times the pool for ten minutes, while the chat
// asks a thousand times and never holds more than its reserved share: each of those asks is
// admitted at its first attempt, and the cap is never passed (the ADR's partition; T92).
func testBurstAgainstAShare(t *testing.T, o Opened) {
	all := o.stores(t)
	Configure(t, all[0], pool.Settings{DefaultQuota: pool.Unlimited, Pools: map[string]pool.Limits{"p": {
		Cap: burstCap, MaxWaiting: 50 * burstCap, Audience: "cloud", SlotTTL: time.Hour, TicketTTL: time.Hour,
		Shares: []pool.Share{{Consumer: "chat", Reserved: burstReserved}},
	}}})
	b := burst{t: t, clock: o.Clock, stores: all}
	ctx, over := context.WithCancel(t.Context())
	var ci sync.WaitGroup
	for i := range 50 * burstCap / burstJobs {
		ci.Go(func() { b.ask(ctx, i) })
	}
	crowd(burstReserved, b.chat)
	over()
	ci.Wait()
	if n := b.refused.Load(); n > 0 {
		t.Errorf("%d of %d asks below the reserved share were not admitted at their first attempt", n, burstAsks)
	}
	if b.served.Load() == 0 {
		t.Error("the CI got nothing at all, so that nobody stood against the chat")
	}
}

type burst struct {
	t       *testing.T
	clock   *Clock
	stores  []control.Store
	refused atomic.Int64
	served  atomic.Int64
}

// ask is one CI worker with its jobs in the line, which it attempts one after the other.
func (b *burst) ask(ctx context.Context, worker int) {
	s := b.stores[worker%len(b.stores)]
	for n := 0; ctx.Err() == nil; n++ {
		c := newClaim(burstJobs*worker + n%burstJobs)
		c.Consumer, c.Mode, c.MaxQueueAge, c.Present = "ci", pool.Queue, time.Hour, pool.PresentFor
		got, err := s.Claim(context.WithoutCancel(ctx), c)
		if err != nil {
			b.t.Error(err)
			return
		}
		if got.Verdict == pool.Granted {
			b.served.Add(1)
			b.release(s, got.Row.ID)
		}
	}
}

// chat is one of as many threads as slots are reserved, each of which holds one at a time.
func (b *burst) chat(thread int) {
	s := b.stores[thread%len(b.stores)]
	for n := range burstAsks / burstReserved {
		b.clock.Advance(10 * time.Minute / burstAsks)
		c := newClaim(100_000*(thread+1) + n)
		c.Consumer, c.Key = "chat", fmt.Sprintf("%d-%d", thread, n)
		got, err := s.Claim(b.t.Context(), c)
		if err != nil || got.Verdict != pool.Granted {
			b.refused.Add(1)
			b.t.Logf("%s: %s, %+v, %v", c.Key, got.Verdict, got.Standing, err)
			continue
		}
		if got.Standing.Busy >= burstCap {
			b.t.Errorf("granted at %d of %d", got.Standing.Busy, burstCap)
		}
		b.release(s, got.Row.ID)
	}
}

func (b *burst) release(s control.Store, id string) {
	if _, ok, err := s.Leave(context.Background(), id, pool.Passage{}); err != nil || !ok {
		b.t.Error("release", ok, err)
	}
}
