package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// testConfig applies documents by compare-and-set, also many at once: one is in force.
func testConfig(t *testing.T, o Opened) {
	all := o.stores(t)
	s := all[0]
	c := control.Config{Document: "one", By: "operator"}
	if g, ok, err := s.Apply(t.Context(), c, OnePool(1, 1)); g != 1 || !ok || err != nil {
		t.Fatal(g, ok, err)
	}
	if _, ok, err := s.Apply(t.Context(), c, OnePool(9, 9)); ok || err != nil {
		t.Errorf("a stale document: %v %v", ok, err)
	}
	won := make(chan int64, 20)
	crowd(10, func(i int) {
		g, ok, err := all[i%len(all)].Apply(t.Context(), control.Config{Generation: 1, Document: "two", By: "x"}, OnePool(2, 2))
		if err != nil {
			t.Error(err)
		}
		if ok {
			won <- g
		}
	})
	if len(won) != 1 || <-won != 2 {
		t.Error("ten documents at once, and not exactly one came into force")
	}
	want := control.Config{Generation: 2, Document: "two", By: "x", AppliedAt: o.Clock.Now()}
	if got, err := s.Config(t.Context()); err != nil || got != want {
		t.Errorf("config %+v %v", got, err)
	}
	lines, err := s.Lines(t.Context())
	if diff := cmp.Diff([]pool.Line{{Name: "p", Limits: pool.Limits{Cap: 2, MaxWaiting: 2}, Held: map[pool.Holder]int64{}}}, lines); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// testList narrows lists by each field.
func testList(t *testing.T, o Opened) {
	s := o.Open(t)
	Configure(t, s, OnePool(pool.Unlimited, 9))
	for i := range 12 {
		claim := newClaim(i)
		claim.Consumer = []string{"c", "d"}[i%2]
		claim.Contents.Class = []string{"small", "large", "huge"}[i%3]
		c, err := s.Claim(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		if i%4 == 0 {
			if _, _, err := s.Settle(t.Context(), c.Row.ID, c.Row.Gen, "h1", time.Minute); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := narrowed(t, s, control.Filter{})
	for _, f := range []control.Filter{
		{},
		{Consumer: "c"},
		{Host: "h1"},
		{Class: "large"},
		{States: []pool.State{pool.Admitted, pool.Running}},
		{Limit: 5},
		{Consumer: "d", Class: "huge", States: []pool.State{pool.Placing}, Limit: 1},
		{Host: "nowhere"},
		{Pool: "p"},
		{Pool: "p", States: []pool.State{pool.Placing, pool.Running}},
		{Pool: "p", States: []pool.State{pool.Placing, pool.Released}},
		{Pool: "q"},
		{After: all[2].ID},
		{After: all[len(all)/2].ID, Limit: 3},
		{After: all[1].ID, Consumer: "c", States: []pool.State{pool.Admitted, pool.Placing}},
		{After: all[len(all)-1].ID},
	} {
		got, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if want := narrowed(t, s, f); !slices.Equal(want, got) {
			t.Errorf("%+v: %s", f, cmp.Diff(want, got))
		}
	}
}

func narrowed(t testing.TB, s control.Store, f control.Filter) []pool.Row {
	all, err := s.List(context.Background(), control.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var out []pool.Row
	for _, r := range all {
		if matches(f, r) && (f.Limit == 0 || len(out) < f.Limit) {
			out = append(out, r)
		}
	}
	return out
}

// testReopen closes and opens: rows, limits, places and the sequence go on (T95's other half).
func testReopen(t *testing.T, o Opened) {
	s := o.Open(t)
	Configure(t, s, OnePool(1, 9))
	queue := func(s control.Store, i int) pool.Claimed {
		claim := newClaim(i)
		claim.Mode, claim.MaxQueueAge = pool.Queue, time.Hour
		c, err := s.Claim(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, second := queue(s, 1), queue(s, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = o.Open(t)
	if r, ok, err := s.ByID(t.Context(), second.Row.ID); err != nil || !ok || r != second.Row {
		t.Errorf("after reopening: %+v %v %v", r, ok, err)
	}
	if third := queue(s, 3); third.Verdict != pool.Queued || third.Row.Place != second.Row.Place+1 || third.Standing.Busy != 1 {
		t.Errorf("a third waiter after reopening: %+v", third)
	}
	if n, err := s.Register(t.Context(), "h1"); err != nil || n <= first.Row.Gen {
		t.Errorf("the sequence went back: %d after %d, %v", n, first.Row.Gen, err)
	}
}

// testNotLoaded claims before any limits are there (T95).
func testNotLoaded(t *testing.T, o Opened) {
	s := o.Open(t)
	c, err := s.Claim(t.Context(), newClaim(1))
	if err != nil || c.Verdict != pool.NotLoaded || busy(t, s) != 0 {
		t.Errorf("without limits: %v %v", c.Verdict, err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
}
