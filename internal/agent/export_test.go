package agent

import (
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/driver"
)

// Measure is one sample of everything, untold.
func (a *Agent) Measure(ctx context.Context) (host.Sample, error) {
	s := newSampler(a)
	defer s.close()
	return s.measure(ctx, true)
}

// Outside returns what looks for what runs out of gate.
func (a *Agent) Outside() func(ctx context.Context, now time.Time) {
	o := newOutside(a)
	return func(ctx context.Context, now time.Time) {
		v, err := a.View(ctx)
		if err == nil {
			o.look(ctx, now, v.Sandboxes)
		}
	}
}

// Tidy removes old logs as if it were then.
func (a *Agent) Tidy(ctx context.Context, then time.Time) error { return a.tidy(ctx, then) }

// Trim gives the room of old output back.
func (a *Agent) Trim(ctx context.Context) error { return a.trim(ctx) }

// LogKeeps is how much of it is kept.
const LogKeeps = logKeeps

// Answers says whether a socket is listened on for good.
func Answers(socket string) bool { return answers(socket) }

// HostRanOut says whether an agent takes such an end of a sandbox with a cgroup of the driver's
// for the host's want of memory.
func (a *Agent) HostRanOut(exit driver.Exit) bool { return a.booter.hostRanOut(&tracked{}, exit) }

// ScoreAt is the kernel's score of a place in the order of victims.
func ScoreAt(place, of int) int { return scoreAt(place, of) }

// EndedBy is what a sandbox's end is put down to.
func EndedBy(by host.Means, ranOut bool) host.Means { return endedBy(by, ranOut) }

// WithWords adds to a hook's failure what it said.
func WithWords(err error, words string) error { return withWords(err, words) }

// CloseState ends an agent that never ran.
func (a *Agent) CloseState() error { return a.log.close() }
