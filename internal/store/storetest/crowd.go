package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// newClaim is a refuse-mode claim of pool p.
func newClaim(i int) pool.Claim {
	return pool.Claim{
		ID: fmt.Sprintf("a%05d", i), Consumer: "c", Key: fmt.Sprintf("k%05d", i), Pool: "p", Mode: pool.Refuse,
		Contents: pool.Contents{Tenant: "t", Class: "small"},
	}
}

// crowd runs n callers at once and waits for them.
func crowd(n int, call func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { call(i) })
	}
	wg.Wait()
}

// stores opens a database, twice where two replicas may share it.
func (o Opened) stores(t testing.TB) []control.Store {
	all := []control.Store{o.Open(t)}
	if o.Shared {
		all = append(all, o.Open(t))
	}
	return all
}

// busy counts the slots of pool p that the store's rows hold.
func busy(t testing.TB, s control.Store) int {
	t.Helper()
	rows, err := s.List(context.Background(), control.Filter{States: []pool.State{pool.Placing, pool.Admitted, pool.Running, pool.Releasing}})
	if err != nil {
		t.Fatal(err)
	}
	return len(rows)
}

// tally counts verdicts from many callers.
type tally struct {
	mu sync.Mutex // guards by
	by map[pool.Verdict]int
}

func (v *tally) add(t testing.TB, c pool.Claimed, err error) {
	if err != nil {
		t.Error(err)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.by[c.Verdict]++
}

// testLastSlot has ten callers want the last free slot at once (T02, T06, T07). Nobody guesses at
// what others hold: the count is the store's, however the callers are spread (F08).
func testLastSlot(t *testing.T, o Opened) {
	all := o.stores(t)
	Configure(t, all[0], OnePool(10, 10))
	for i := range 9 {
		if c, err := all[0].Claim(t.Context(), newClaim(i)); err != nil || c.Verdict != pool.Granted {
			t.Fatal(c.Verdict, err)
		}
	}
	got := tally{by: map[pool.Verdict]int{}}
	crowd(10, func(i int) {
		c, err := all[i%len(all)].Claim(t.Context(), newClaim(100+i))
		got.add(t, c, err)
	})
	if got.by[pool.Granted] != 1 || got.by[pool.PoolFull] != 9 || busy(t, all[0]) != 10 {
		t.Errorf("one slot was left; verdicts %v, busy %d", got.by, busy(t, all[0]))
	}
}

// testQuotaOverPools has a tenant claim in two pools at once: its quota is one number (T06, T09).
func testQuotaOverPools(t *testing.T, o Opened) {
	all := o.stores(t)
	Configure(t, all[0], pool.Settings{
		Pools:        map[string]pool.Limits{"p": {Cap: 100, MaxWaiting: 10}, "q": {Cap: 100, MaxWaiting: 10}},
		Quotas:       map[string]int64{"t": 5},
		DefaultQuota: 0,
	})
	got := tally{by: map[pool.Verdict]int{}}
	crowd(40, func(i int) {
		claim := newClaim(i)
		claim.Pool = []string{"p", "q"}[i/2%2]
		c, err := all[i%len(all)].Claim(t.Context(), claim)
		got.add(t, c, err)
	})
	if got.by[pool.Granted] != 5 || got.by[pool.OverQuota] != 35 {
		t.Errorf("a quota of 5; verdicts %v", got.by)
	}
}

// testSameKey has a caller repeat one call many times at once: it is one admission (T75, T10).
func testSameKey(t *testing.T, o Opened) {
	all := o.stores(t)
	Configure(t, all[0], OnePool(10, 10))
	got := tally{by: map[pool.Verdict]int{}}
	crowd(20, func(i int) {
		claim := newClaim(7)
		claim.ID = fmt.Sprintf("b%d", i) // each replica makes an id of its own
		c, err := all[i%len(all)].Claim(t.Context(), claim)
		got.add(t, c, err)
	})
	if got.by[pool.Granted] != 1 || got.by[pool.BusyPlacing] != 19 || busy(t, all[0]) != 1 {
		t.Errorf("one key; verdicts %v, busy %d", got.by, busy(t, all[0]))
	}
}

// testChurn closes and creates fast below the cap: nobody may be refused (T43).
func testChurn(t *testing.T, o Opened) {
	all := o.stores(t)
	Configure(t, all[0], OnePool(20, 10))
	crowd(15, func(i int) {
		s := all[i%len(all)]
		for round := range 12 {
			claim := newClaim(100*i + round)
			c, err := s.Claim(t.Context(), claim)
			if err != nil || c.Verdict != pool.Granted {
				t.Errorf("never above 15 of 20: %v %v", c.Verdict, err)
				return
			}
			passThrough(t, s, c.Row)
		}
	})
	if n := busy(t, all[0]); n != 0 {
		t.Errorf("idle, and %d slots are held", n)
	}
}

// passThrough takes a granted row through its whole passage.
func passThrough(t testing.TB, s control.Store, r pool.Row) {
	ctx := context.Background()
	if _, ok, err := s.Settle(ctx, r.ID, r.Gen, "h1", time.Minute); err != nil || !ok {
		t.Errorf("settle: %v %v", ok, err)
	}
	if ok, err := s.Track(ctx, r.ID, r.Gen); err != nil || !ok {
		t.Errorf("track: %v %v", ok, err)
	}
	if written, _, err := s.End(ctx, r.ID, r.Gen, pool.Released, "exit"); err != nil || !written {
		t.Errorf("end: %v %v", written, err)
	}
}

// testCrowd mixes waiters, leavers and sweepers; the cap holds at every look, and when all
// have gone nothing is held (T01, T28, T30).
func testCrowd(t *testing.T, o Opened) {
	all := o.stores(t)
	Configure(t, all[0], OnePool(4, 100))
	looked := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(looked)
		for {
			if n := busy(t, all[0]); n > 4 {
				t.Errorf("%d slots of a cap of 4", n)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	crowd(24, func(i int) {
		for round := range 6 {
			visit(t, all[i%len(all)], 100*i+round)
		}
	})
	close(stop)
	<-looked
	if n := busy(t, all[0]); n != 0 {
		t.Errorf("idle, and %d slots are held", n)
	}
}

// visit claims in queue mode, tries a few times, and goes in one of several ways.
func visit(t testing.TB, s control.Store, i int) {
	ctx := context.Background()
	claim := newClaim(i)
	claim.Mode, claim.MaxQueueAge, claim.Present = pool.Queue, time.Hour, pool.PresentFor
	c, err := s.Claim(ctx, claim)
	for try := 0; err == nil && c.Verdict == pool.Queued && try < 3; try++ {
		claim.Attempt = true
		c, err = s.Claim(ctx, claim)
	}
	switch {
	case err != nil:
		t.Error(err)
	case c.Verdict == pool.Granted && i%3 == 0:
		if _, err := s.NoRoom(ctx, c.Row.ID, c.Row.Gen, true, 0); err != nil {
			t.Error(err)
		}
	case c.Verdict == pool.Granted:
		passThrough(t, s, c.Row)
	}
	if r, ok, err := s.Get(ctx, "c", claim.Key); err != nil {
		t.Error(err)
	} else if ok {
		if _, _, err := s.Leave(ctx, r.ID, pool.Passage{}); err != nil {
			t.Error(err)
		}
	}
}

// testGoneCallers has callers leave in the middle: the others are served, and whatever was
// written for one that left is a whole row.
func testGoneCallers(t *testing.T, o Opened) {
	s := o.Open(t)
	Configure(t, s, OnePool(1000, 10))
	gone, cancel := context.WithCancel(t.Context())
	crowd(60, func(i int) {
		ctx := t.Context()
		if i%3 == 0 {
			ctx = gone
		}
		if i == 31 {
			cancel()
		}
		c, err := s.Claim(ctx, newClaim(i))
		if i%3 == 0 && errors.Is(err, context.Canceled) {
			return
		}
		if err != nil || c.Verdict != pool.Granted {
			t.Errorf("claim %d: %v %v", i, c.Verdict, err)
		}
	})
	cancel()
	if n := busy(t, s); n < 40 || n > 60 {
		t.Errorf("60 claims, a third of whose callers left: %d slots", n)
	}
}

// testClose closes a store under load: each caller gets its answer or ErrClosed, and what
// was granted is there when the store is opened again.
func testClose(t *testing.T, o Opened) {
	s := o.Open(t)
	Configure(t, s, OnePool(pool.Unlimited, 10))
	var mu sync.Mutex
	granted := map[string]bool{} // id -> was confirmed
	crowd(16, func(i int) {
		for round := 0; ; round++ {
			claim := newClaim(1000*i + round)
			c, err := s.Claim(context.Background(), claim)
			if err != nil {
				return
			}
			mu.Lock()
			granted[c.Row.ID] = true
			enough := len(granted) == 50
			mu.Unlock()
			if enough {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	again := o.Open(t)
	for id := range granted {
		if _, ok, err := again.ByID(context.Background(), id); err != nil || !ok {
			t.Errorf("admission %s was confirmed and is gone: %v", id, err)
		}
	}
}
