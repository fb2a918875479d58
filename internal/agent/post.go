package agent

import (
	"context"

	"github.com/plimsoll-project/plimsoll/host"
)

// Reply is the answer to what was posted under its tag. An error means that the outcome is
// unknown.
type Reply struct {
	Tag    uint64
	Answer host.Answer
	Err    error
}

// Post puts an event in line and does not wait for its answer, so that one goroutine can ask
// for many: what is posted one after the other is stepped in that order, mostly as one
// batch. Back must have room for every answer that is outstanding, for the host waits for
// nobody. Once the agent has stopped nothing is answered; its feeds say so.
func (a *Agent) Post(ctx context.Context, tag uint64, ev host.Event, back chan<- Reply) error {
	return a.put(ctx, request{event: ev, tag: tag, reply: back})
}

// PostLook does likewise for a look at the host between two steps. A firm one is answered
// well only if a restart would still see what it saw.
func (a *Agent) PostLook(ctx context.Context, tag uint64, firm bool, look func(*host.Host), back chan<- Reply) error {
	return a.put(ctx, request{look: look, firm: firm, tag: tag, reply: back})
}

func (a *Agent) put(ctx context.Context, r request) error {
	select {
	case a.inbox <- r:
		return nil
	case <-a.over:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
