package boot

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// BypassOrder opens a bypass, or with no time ends it.
type BypassOrder struct {
	ForMS  int64  `json:"for_ms"`
	Reason string `json:"reason"`
}

// SetBypass lets this host boot without tickets for a while; zero ends that. Root may, and the
// agent's own user and group. The host writes it into the audit as soon as a replica is there.
func (c Client) SetBypass(ctx context.Context, lasts time.Duration, reason string) (api.Bypass, error) {
	return c.bypass(ctx, &BypassOrder{ForMS: lasts.Milliseconds(), Reason: reason})
}

// Bypass says whether there is one.
func (c Client) Bypass(ctx context.Context) (api.Bypass, error) { return c.bypass(ctx, nil) }

func (c Client) bypass(ctx context.Context, order *BypassOrder) (api.Bypass, error) {
	r, err := c.once(ctx, Request{Op: OpBypass, Bypass: order}, EvBypass)
	if err == nil && r.Bypass == nil {
		err = errors.New("the agent told nothing of a bypass; is it of another version?")
	}
	if err != nil {
		return api.Bypass{}, err
	}
	return *r.Bypass, nil
}

// Unticketed asks for a start without a ticket, by what the sandbox will be. It is granted
// under a bypass, as far as the host has room, and on a host in shadow; else it is refused
// (ticket_rejected).
func (c Client) Unticketed(ctx context.Context, ask Ask) (*Start, error) {
	return c.begin(ctx, Request{Op: OpRedeem, Ask: &ask})
}

// RunUnticketed is Run by what the sandbox will be, likewise.
func (c Client) RunUnticketed(ctx context.Context, ask Ask, cmd Command, stdout, stderr io.Writer, signals <-chan int) (Exit, error) {
	return c.run(ctx, Request{Op: OpRun, Ask: &ask, Command: &cmd}, stdout, stderr, signals)
}
