package agent

import (
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
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
