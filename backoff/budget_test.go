package backoff_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/backoff"
)

// Into an outage a client sends ten retries, and then one a second, whatever the number of callers.
func TestABudgetBoundsWhatIsSentIntoAnOutage(t *testing.T) {
	b, sent := backoff.NewBudget(noon), 0
	for ms := range 60_001 {
		for range 3 {
			if b.Take(noon.Add(time.Duration(ms) * time.Millisecond)) {
				sent++
			}
		}
	}
	if sent != 10+60 {
		t.Errorf("%d retries in a minute", sent)
	}
}

// After it each answer lets two ask, so that a thousand callers are back within a second of
// round trips of 50 ms.
func TestABudgetIsBackSoonAfterTheFirstAnswer(t *testing.T) {
	b, now, waiting := backoff.NewBudget(noon), noon, 1000
	for b.Take(now) {
	}
	waiting-- // one is sent, and is the first that is answered
	asked, rounds := 1, 0
	for ; waiting > 0 && rounds < 1000; rounds++ {
		now = now.Add(50 * time.Millisecond)
		answered := asked
		asked = 0
		for range answered {
			b.Answered(now)
			for waiting > 0 && b.Take(now) {
				waiting--
				asked++
			}
		}
	}
	if took := time.Duration(rounds) * 50 * time.Millisecond; took > time.Second {
		t.Errorf("all were back after %s", took)
	}
}

// Whatever happens, what was taken is at most what there was and what came.
func TestABudgetNeverGivesMoreThanItHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, now, taken, answered := backoff.NewBudget(noon), noon, int64(0), int64(0)
		last := now
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(-2e9, 5e9).Draw(t, "passed")))
			if now.After(last) {
				last = now
			}
			if rapid.Bool().Draw(t, "answered") {
				b.Answered(now)
				answered++
			} else if b.Take(now) {
				taken++
			}
			if most := 10_000 + last.Sub(noon).Milliseconds() + 2000*answered; 1000*taken > most {
				t.Fatalf("%d tokens of %d thousandths", taken, most)
			}
		}
	})
}

func TestPutOff(t *testing.T) {
	for rand, want := range map[uint64]time.Duration{0: 500 * time.Millisecond, 1 << 63: 750 * time.Millisecond, math.MaxUint64: time.Second} {
		if got := backoff.PutOff(rand); got != want {
			t.Errorf("%d: %v", rand, got)
		}
	}
}
