package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/agenda"
)

// world is the clock, the randomness, what is still to happen, and the history so far.
type world struct {
	now    time.Duration
	rand   *rand.Rand
	agenda agenda.Agenda[func()]
	serial int64
	digest uint64
	events int64
	story  io.Writer // nil: nobody reads along
	tame   bool      // nothing goes wrong by chance; only how long things take is drawn
}

func newWorld(seed uint64) world {
	return world{rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), digest: 14695981039346656037}
}

// after schedules something. What happens at one instant happens in the order in which it
// was scheduled, on every machine.
func (w *world) after(delay time.Duration, do func()) {
	w.serial++
	w.agenda.Note(w.now+max(delay, 0), do)
}

// step does what comes next; false when nothing is left before the horizon.
func (w *world) step(horizon time.Duration) bool {
	if w.agenda.Len() == 0 || w.agenda.Next() > horizon {
		w.now = max(w.now, horizon)
		return false
	}
	when, do := w.agenda.Take()
	w.now = when
	w.events++
	do()
	return true
}

// fact adds to the digest what happened; two histories with the same facts are the same.
func (w *world) fact(what fact, id string, n int64) {
	w.mix(uint64(w.now))
	w.mix(uint64(what))
	for i := range len(id) {
		w.digest = (w.digest ^ uint64(id[i])) * 1099511628211
	}
	w.mix(uint64(n))
}

func (w *world) mix(x uint64) {
	for range 8 {
		w.digest = (w.digest ^ (x & 0xff)) * 1099511628211
		x >>= 8
	}
}

// fact is a kind of event that the digest stands for.
type fact uint8

const (
	factFault fact = iota
	factGrant
	factReserve
	factAnswer
	factBoot
	factExit
	factRedeem
)

// tell writes a line of the transcript, for people.
func (w *world) tell(format string, args ...any) {
	if w.story != nil {
		fmt.Fprintf(w.story, "%9.3fs  "+format+"\n", append([]any{w.now.Seconds()}, args...)...)
	}
}

func (w *world) chance(percent int) bool { return percent > 0 && !w.tame && w.rand.IntN(100) < percent }

// between draws a duration.
func (w *world) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(w.rand.Int64N(int64(hi-lo)+1))
}
