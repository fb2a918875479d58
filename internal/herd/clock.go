package herd

import (
	"time"

	"github.com/plimsoll-project/plimsoll/internal/agenda"
)

// clock is the time of a play, and what is going to happen.
type clock struct {
	now  time.Duration
	todo agenda.Agenda[func()]
}

// at has something done at an instant, or at once if that is over.
func (c *clock) at(then time.Duration, do func()) { c.todo.Note(max(then, c.now), do) }

func (c *clock) after(d time.Duration, do func()) { c.at(c.now+d, do) }

// step does what comes next, and answers false when there is nothing.
func (c *clock) step() bool {
	if c.todo.Len() == 0 {
		return false
	}
	when, do := c.todo.Take()
	c.now = when
	do()
	return true
}
