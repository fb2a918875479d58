package hint

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// crowd is who asks at one desk, and what they were told.
type crowd struct {
	t    *testing.T
	desk *Desk
	rand *rand.Rand
	told map[int64]bool // the millisecond of each appointment
}

func newCrowd(t *testing.T) *crowd {
	return &crowd{t: t, desk: NewDesk(0), rand: rand.New(rand.NewPCG(1, 2)), told: map[int64]bool{}}
}

func (c *crowd) hears(now, wait time.Duration, what string) {
	c.t.Helper()
	if wait%time.Millisecond != 0 {
		c.t.Fatalf("%s at %v: %v is no whole number of milliseconds", what, now, wait)
	}
	moment := int64((now + wait) / time.Millisecond)
	if c.told[moment] {
		c.t.Fatalf("%s at %v: told %v, and somebody else was told the same moment", what, now, wait)
	}
	c.told[moment] = true
}

// Many callers, some of whom were refused, some hold places that are told again and again, some found
// no store, come at whatever moments while more or less is freed than was measured: tens of thousands of
// appointments, and no two for the same millisecond.
func TestNoTwoCallersOfADeskShareAMoment(t *testing.T) {
	c := newCrowd(t)
	now := time.Duration(0)
	for second := range 600 {
		if second%5 == 0 {
			c.desk.Freed(now, c.rand.Int64N(100))
		}
		for range 30 {
			now += time.Duration(c.rand.Int64N(int64(time.Second) / 15))
			switch c.rand.IntN(3) {
			case 0:
				in, _ := c.desk.Refused(now, time.Duration(c.rand.Int64N(int64(3*time.Minute))-int64(time.Minute)), c.rand.Uint64())
				c.hears(now, in, "refused")
			case 1:
				turn := c.desk.Turn(now, 1+c.rand.Int64N(2000), c.rand.Uint64())
				c.hears(now, turn, "in line")
			case 2:
				c.hears(now, c.desk.Soon(now, c.rand.Uint64()), "no store")
			}
		}
	}
	if len(c.told) != 18_000 {
		t.Errorf("%d appointments", len(c.told))
	}
}

// All at one moment: thousands who are refused, or wait in a line or for the store, at a rate that was
// measured or none, are told as many moments, each within its bounds.
func TestACrowdOfOneMomentIsSpread(t *testing.T) {
	for name, freed := range map[string]int64{"nothing measured": 0, "2 a second": 10, "50 a second": 250} {
		t.Run(name, func(t *testing.T) {
			const now = 5 * time.Second
			c, line := newCrowd(t), newCrowd(t)
			c.desk.Freed(now, freed)
			line.desk.Freed(now, freed)
			for i := range int64(5000) {
				in, turn := c.desk.Refused(now, 0, c.rand.Uint64())
				c.hears(now, in, "refused")
				if in > 90*time.Second || in < 500*time.Millisecond || turn < in {
					t.Fatalf("refused after %d others: told %v, for a turn in %v", i, in, turn)
				}
				turn = line.desk.Turn(now, i+1, line.rand.Uint64())
				line.hears(now, turn, "in line")
				if turn > 10*time.Minute || turn < 500*time.Millisecond {
					t.Fatalf("position %d: told %v", i+1, turn)
				}
			}
			down := newCrowd(t)
			for range 5000 {
				down.hears(now, down.desk.Soon(now, down.rand.Uint64()), "no store")
			}
		})
	}
}

// Who is away until shortly before its turn comes back alone, too, however far off its turn is.
func TestNoTwoWaitersComeBackTogether(t *testing.T) {
	c := newCrowd(t)
	c.desk.Freed(30*time.Second, 300)
	for position := int64(64); position < 5000; position++ {
		turn := c.desk.Turn(30*time.Second, position, c.rand.Uint64())
		away := c.desk.PollAfter(30*time.Second, position, turn, 30*time.Second)
		if away > 0 {
			c.hears(30*time.Second, away, "away")
		}
		if away >= 2*time.Minute || away > turn {
			t.Fatalf("position %d, turn in %v: away for %v", position, turn, away)
		}
	}
	if len(c.told) < 4700 {
		t.Errorf("%d were away", len(c.told))
	}
}

// What it gives is what a list of all that was given would: the first free moment from the wanted one
// on, else the last before, else the wanted one.
func TestSeatsAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, taken := new(seats), map[int64]bool{}
		now := time.Duration(0)
		for range rapid.IntRange(1, 300).Draw(t, "callers") {
			now += time.Duration(rapid.Int64Range(0, 1).Draw(t, "time passes")) * time.Duration(rapid.Int64Range(0, int64(15*time.Minute)).Draw(t, "pause"))
			wait := time.Duration(rapid.Int64Range(1, 100).Draw(t, "wait")) * time.Millisecond
			if rapid.Bool().Draw(t, "far") {
				wait += 10 * time.Minute
			}
			least := wait - time.Duration(rapid.Int64Range(0, 20).Draw(t, "sooner"))*time.Millisecond
			most := wait + time.Duration(rapid.Int64Range(0, 20).Draw(t, "later"))*time.Millisecond
			got := s.take(now, wait, least, most)
			if want := listed(taken, now, wait, least, most); got != want {
				t.Fatalf("at %v for %v (%v to %v): %v, want %v", now, wait, least, most, got, want)
			}
			taken[ms(now+got)] = true
		}
	})
}

func listed(taken map[int64]bool, now, wait, least, most time.Duration) time.Duration {
	for d := wait; d <= most; d += time.Millisecond {
		if !taken[ms(now+d)] {
			return d
		}
	}
	for d := wait; d >= max(least, time.Millisecond); d -= time.Millisecond {
		if !taken[ms(now+d)] {
			return d
		}
	}
	return wait
}

// A wait beyond all that is kept track of, a clock that goes back, or that stood still for a day.
func TestSeatsAtTheirEnds(t *testing.T) {
	s := new(seats)
	if got := s.take(-time.Second, time.Hour, time.Hour, time.Hour); got != time.Hour {
		t.Errorf("%v", got)
	}
	for _, now := range []time.Duration{time.Minute, time.Second, 24 * time.Hour, 23 * time.Hour} {
		if got := s.take(now, time.Second, 0, 2*time.Second); got != time.Second {
			t.Errorf("at %v: %v", now, got)
		}
	}
}
