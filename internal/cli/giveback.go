package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// giveUp takes back what was asked for, where something may be left of it: a place in the
// queue, or a yes that a signal overtook.
func (r *runner) giveUp(ctx context.Context, err error) {
	var waiting *client.StillWaiting
	if errors.As(err, &waiting) || errors.Is(err, context.Canceled) {
		r.release(ctx)
	}
}

// giveBack returns an admission of which no sandbox came. It spares what may be another
// process's boot under the same key, and a sandbox that goes on without its agent.
func (r *runner) giveBack(ctx context.Context, err error) {
	switch {
	case errors.Is(err, boot.ErrConnectionLost):
	case errors.Is(err, api.TicketRejected) && !r.ownKey:
	default:
		r.release(ctx)
	}
}

func (r *runner) release(ctx context.Context) {
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err := r.client.Release(ctx, r.request.Key)
	if err == nil || errors.Is(err, api.NotFound) {
		return
	}
	fmt.Fprintf(r.stderr, "plimsoll: key %s was not given back (%s); unbooted it lapses by itself\n", r.request.Key, err)
}
