package postgres

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
)

func TestSteadied(t *testing.T) {
	const hour = 3_600_000
	for _, c := range []struct {
		name string
		r    reading
		want pool.Time
	}{
		{"first", reading{raw: 10 * hour}, 0},
		{"goes on", reading{raw: 10*hour + 5000, rawAt: 10 * hour}, 0},
		{"set back", reading{raw: 9 * hour, rawAt: 10 * hour, beatAt: 10 * hour}, hour},
		{"set back twice", reading{raw: 8 * hour, rawAt: 9 * hour, ahead: hour, beatAt: 10 * hour}, 2 * hour},
		{"makes up", reading{raw: 9*hour + 5000, rawAt: 9 * hour, ahead: hour}, hour - 500},
		{"has made up", reading{raw: 9*hour + 5000, rawAt: 9 * hour, ahead: 300}, 0},
		{"set right again", reading{raw: 10 * hour, rawAt: 9 * hour, ahead: hour, beatAt: 10 * hour}, 0},
		{"set right by half", reading{raw: 9*hour + hour/2, rawAt: 9 * hour, ahead: hour, beatAt: 10 * hour}, hour / 2},
		{"set forward", reading{raw: 12 * hour, rawAt: 10 * hour}, 0},
	} {
		if got := c.r.steadied(); got != c.want {
			t.Errorf("%s: ahead by %d, want %d", c.name, got, c.want)
		}
	}
}

// The server's clock is set back by an hour, and right again later: nothing is over for it,
// and what is over in time is late by a tenth and by what had passed since the last pulse (T56's kind).
func TestClockSetBack(t *testing.T) {
	o := fresh(t)
	s := o.Open(t)
	limits := storetest.OnePool(1, 9)
	limits.Pools["r"] = pool.Limits{Cap: 9, Audience: "cloud", SlotTTL: time.Minute, TicketTTL: time.Minute}
	storetest.Configure(t, s, limits)
	goOn(t, o.Clock, s, 2*time.Minute)
	o.Clock.Advance(3 * time.Second) // since the last pulse
	held := admitted(t, s, "r1")
	placing, err := s.Claim(t.Context(), newClaim(1))
	if err != nil || placing.Verdict != pool.Granted {
		t.Fatal(placing.Verdict, err)
	}

	o.Clock.Advance(-time.Hour)
	stateIs(t, s, held, pool.Admitted)
	second := admitted(t, s, "r2")
	if second.AdmittedAt < held.AdmittedAt {
		t.Errorf("dated %d, after %d", second.AdmittedAt, held.AdmittedAt)
	}
	goOn(t, o.Clock, s, pool.PlacingFor*12/10+4*time.Second)
	if _, ok, err := s.ByID(t.Context(), placing.Row.ID); ok || err != nil {
		t.Errorf("a placing without a replica stands: %v", err)
	}
	stateIs(t, s, held, pool.Admitted)
	goOn(t, o.Clock, s, time.Minute)
	stateIs(t, s, held, pool.Expired)

	third := admitted(t, s, "r3")
	o.Clock.Advance(time.Hour)
	goOn(t, o.Clock, s, 5*time.Second)
	stateIs(t, s, third, pool.Admitted)
	if now, err := s.Now(t.Context()); err != nil || now != o.Clock.Now() {
		t.Errorf("the store's clock is at %d, the server's, set right, at %d: %v", now, o.Clock.Now(), err)
	}
}

// goOn lets time pass as the server's clock has it, while a replica is there.
func goOn(t *testing.T, clock *storetest.Clock, s control.Store, d time.Duration) {
	t.Helper()
	for ; d > 0; d -= 2 * time.Second {
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.Advance(2 * time.Second)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func admitted(t *testing.T, s control.Store, key string) pool.Row {
	t.Helper()
	c, err := s.Claim(t.Context(), pool.Claim{ID: key, Consumer: "c", Key: key, Pool: "r", Mode: pool.Refuse})
	if err != nil || c.Row.State != pool.Admitted {
		t.Fatal(c.Verdict, c.Row.State, err)
	}
	return c.Row
}

func stateIs(t *testing.T, s control.Store, r pool.Row, want pool.State) {
	t.Helper()
	if got, ok, err := s.ByID(t.Context(), r.ID); err != nil || !ok || got.State != want {
		t.Errorf("%s is %s (%v, %v), want %s", r.ID, got.State, ok, err, want)
	}
}
