package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Time never runs backwards: what comes next is what is due first, and of what is due at one
// instant what was scheduled first.
func TestAgendaIsInOrder(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(1)
		last := item{}
		for n := range 20_000 {
			if n < 1000 || len(w.agenda) == 0 || r.IntN(100) < 50 {
				w.after(time.Duration(r.Int64N(1<<r.IntN(40))), func() {})
				continue
			}
			next := w.agenda.pop()
			if next.before(last) {
				t.Fatalf("seed %d, after %d steps: what is due at %v comes after what was at %v", seed, n, next.when, last.when)
			}
			w.now, last = next.when, next
		}
	}
}
