package agenda_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/agenda"
)

// Time never runs backwards: what comes next is what is due first, and of what is due at one
// instant what was noted first.
func TestInOrder(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		var a agenda.Agenda[int]
		now, last := time.Duration(0), -1
		for n := range 20_000 {
			if n < 1000 || a.Len() == 0 || r.IntN(100) < 50 {
				a.Note(now+time.Duration(r.Int64N(1<<r.IntN(40))), n)
				continue
			}
			due := a.Next()
			when, what := a.Take()
			if when != due || when < now || when == now && what < last {
				t.Fatalf("seed %d, after %d steps: %d, due at %v, comes after %d at %v", seed, n, what, when, last, now)
			}
			now, last = when, what
		}
	}
}

// Nothing is lost, and nothing comes twice.
func TestEachComesOnce(t *testing.T) {
	var a agenda.Agenda[int]
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		a.Note(time.Duration(r.IntN(50)), n)
	}
	seen := map[int]bool{}
	for a.Len() > 0 {
		_, what := a.Take()
		seen[what] = true
	}
	if len(seen) != 2000 {
		t.Errorf("%d of 2000 came", len(seen))
	}
}
