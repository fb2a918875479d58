package storm

import (
	"math/rand/v2"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/agenda"
)

// world is the clock and what is still to happen.
type world struct {
	now    time.Duration // from the beginning of the storm; below zero before it
	rand   *rand.Rand
	agenda agenda.Agenda[func()]
}

// wall is a clock for what wants one.
func (w *world) wall() time.Time { return time.Unix(1_000_000, 0).Add(w.now) }

// after schedules something. What happens at one instant happens in the order in which it was
// scheduled.
func (w *world) after(d time.Duration, do func()) {
	w.agenda.Note(w.now+max(d, 0), do)
}

// step does what comes next; false when nothing is left.
func (w *world) step() bool {
	if w.agenda.Len() == 0 {
		return false
	}
	when, do := w.agenda.Take()
	w.now = when
	do()
	return true
}
