package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
)

// testJoinOnce has a crowd join with one token, through every replica: one host is let in.
func testJoinOnce(t *testing.T, o Opened) {
	all := o.stores(t)
	if _, err := all[0].IssueJoin(t.Context(), registry.Token{ID: "join-1", Digest: secret(1), By: "root"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	var entered atomic.Int64
	crowd(10, func(i int) {
		j := registry.Join{Token: secret(1), Host: fmt.Sprint("j", i), Endpoint: "127.0.0.1:7071", Credential: secret(10 + i)}
		entry, err := all[i%len(all)].Join(t.Context(), j)
		switch {
		case err != nil:
			t.Error(err)
		case entry == registry.Entered:
			entered.Add(1)
		case entry != registry.TokenUsed:
			t.Errorf("%s", entry)
		}
	})
	if hosts, err := all[0].Hosts(t.Context()); err != nil || len(hosts) != 1 || entered.Load() != 1 {
		t.Errorf("%d were let in, %d are registered, %v", entered.Load(), len(hosts), err)
	}
}

// burying is a fleet of three hosts over a store, of which h1 dies.
type burying struct {
	t     *testing.T
	clock *Clock
	store control.Store
}

// testBury has a host die with a stateless and a stateful admission on it. The first one is lost
// with the lease; the other one keeps slot and key until the bury, after which its key moves
// under a higher epoch, and a sandbox that comes back under the old one is nobody's.
func testBury(t *testing.T, o Opened) {
	b := burying{t, o.Clock, o.Open(t)}
	Configure(t, b.store, OnePool(2, 9))
	for _, id := range hosts {
		if _, err := b.store.Register(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	task, base := b.running(1, false), b.running(2, true)
	b.bury(registry.Alive)
	b.outlive(2 * time.Minute)
	b.want(task, pool.Running)
	b.outlive(4 * time.Minute)
	b.want(task, pool.Lost)
	b.want(base, pool.Running) // its slot and its key are held
	if r, ok, err := b.store.Move(t.Context(), base.ID, base.Epoch, false); err != nil || ok {
		t.Errorf("a stateful key moved before the bury: %+v %v", r, err)
	}
	b.bury(registry.Changed)
	b.bury(registry.Same)
	if _, err := b.store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.want(base, pool.Lost)
	again := b.running(2, true)
	if again.ID != base.ID || again.Epoch <= base.Epoch {
		t.Errorf("%s at %d after %s at %d", again.ID, again.Epoch, base.ID, base.Epoch)
	}
	if ok, err := b.store.Return(t.Context(), base.ID, base.Epoch, "h1"); ok || err != nil {
		t.Errorf("what was superseded came back: %v %v", ok, err)
	}
	if ok, err := b.store.Return(t.Context(), task.ID, task.Epoch, "h1"); !ok || err != nil { // nobody superseded it
		t.Errorf("what runs on was not taken back: %v %v", ok, err)
	}
}

// running claims, settles on h1 when that is there, else on h2, and tracks.
func (b *burying) running(i int, stateful bool) pool.Row {
	b.t.Helper()
	claim, at := newClaim(i), "h1"
	claim.Contents.Stateful = stateful
	all, err := b.store.Hosts(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if all[0].State == registry.Buried {
		at = "h2"
	}
	c, err := b.store.Claim(b.t.Context(), claim)
	if err != nil || c.Verdict != pool.Granted {
		b.t.Fatal(c.Verdict, err)
	}
	row, ok, err := b.store.Settle(b.t.Context(), c.Row.ID, c.Row.Gen, at, time.Minute)
	if err == nil && ok {
		ok, err = b.store.Track(b.t.Context(), row.ID, row.Epoch)
	}
	if err != nil || !ok {
		b.t.Fatal(ok, err)
	}
	return row
}

func (b *burying) want(r pool.Row, s pool.State) {
	b.t.Helper()
	if got, _, err := b.store.ByID(b.t.Context(), r.ID); err != nil || got.State != s {
		b.t.Errorf("%s is %s, want %s (%v)", r.ID, got.State, s, err)
	}
}

func (b *burying) bury(want registry.Verdict) {
	b.t.Helper()
	_, v, err := b.store.SetHostState(b.t.Context(), registry.Change{Host: "h1", Deed: registry.Bury, By: "olga", Reason: "burnt", Silent: 30 * time.Second})
	if err != nil || v != want {
		b.t.Errorf("bury: %s, want %s (%v)", v, want, err)
	}
}

// outlive lets time pass in which h2 and h3 are heard, and sweeps.
func (b *burying) outlive(d time.Duration) {
	b.t.Helper()
	for ; d > 0; d -= 10 * time.Second {
		b.clock.Advance(10 * time.Second)
		if _, err := b.store.Pulse(b.t.Context(), hosts[1:]); err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := b.store.Sweep(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// testOutage has every replica off for longer than a lease lasts: nothing is lost by a silence
// that nobody could have broken (T55), nor is a host buried by it; afterwards a host that stays
// silent dies as ever.
func testOutage(t *testing.T, o Opened) {
	b := burying{t, o.Clock, o.Open(t)}
	Configure(t, b.store, OnePool(2, 9))
	for _, id := range hosts {
		if _, err := b.store.Register(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	b.outlive(10 * time.Second)
	task := b.running(1, false)
	b.clock.Advance(6 * time.Minute)
	b.outlive(10 * time.Second)
	b.want(task, pool.Running)
	b.bury(registry.Alive)
	b.outlive(2 * time.Minute)
	b.want(task, pool.Running)
	b.outlive(4 * time.Minute)
	b.want(task, pool.Lost)
}

// testLeft has three of five hosts shut down without a bury. While they count, a fourth one that
// dies does not; after an hour of silence with nothing on them they have left, and it is lost.
func testLeft(t *testing.T, o Opened) {
	b := burying{t, o.Clock, o.Open(t)}
	Configure(t, b.store, OnePool(9, 9))
	for _, id := range []string{"h1", "h2", "h3", "h4", "h5"} {
		if _, err := b.store.Register(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	task := b.running(1, false)
	hear := func(d time.Duration, hosts ...string) {
		t.Helper()
		for ; d > 0; d -= 10 * time.Second {
			o.Clock.Advance(10 * time.Second)
			if _, err := b.store.Pulse(t.Context(), hosts); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.store.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	hear(time.Minute, "h1", "h2", "h3", "h4", "h5")
	hear(50*time.Minute, "h1", "h2")
	hear(6*time.Minute, "h2") // h1 has died
	b.want(task, pool.Running)
	hear(10*time.Minute, "h2")
	b.want(task, pool.Lost)
	late, err := b.store.Pulse(t.Context(), []string{"h4"}) // and counts again, as h1 still does
	if err != nil || late.Deaf() {
		t.Errorf("%+v %v", late, err)
	}
	o.Clock.Advance(10 * time.Second)
	hear(time.Minute, "h4")
	if p, err := b.store.Pulse(t.Context(), nil); err != nil || !p.Deaf() { // h1 and h2 of h1, h2 and h4
		t.Errorf("%+v %v", p, err)
	}
}
