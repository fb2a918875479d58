package agent

import (
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
)

// Measure is one sample of everything, untold.
func (a *Agent) Measure(ctx context.Context) (host.Sample, error) {
	s := sampler{agent: a, unseen: map[string]bool{}}
	return s.measure(ctx, true)
}

// Tidy removes old logs as if it were then.
func (a *Agent) Tidy(ctx context.Context, then time.Time) error { return a.tidy(ctx, then) }

// LogsMost and LogsFor are what is kept.
const (
	LogsMost = logsMost
	LogsFor  = logsFor
)
