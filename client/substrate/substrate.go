// Package substrate is the gate of whoever boots what a pool without hosts admits
// (placement: none): a container class, a function, a provider's sandboxes. Without a valid
// ticket nothing boots.
//
//	keys, err := ticket.ParseAudienceKeys(file) // made by: plimsoll keyring audience NAME
//	gate := substrate.New(c, keys)
//	admitted, err := gate.Redeem(ctx, text, instance)
//	if err != nil {
//		return err // boot nothing
//	}
//	boot(admitted.MemoryMB)
//
// Verify judges a ticket here, with the audience's own key and without a call: what is missing,
// malformed, forged, for another audience or past its end by more than 30 s of this clock. What
// only the store knows, that it was released, placed anew or used before, Redeem asks: once,
// before the boot. The same instance may ask again, so that a lost answer costs no boot; so an
// instance must be booted by its own redemption alone.
//
// It decides nothing about capacity. Whoever holds the key can forge tickets, for this audience
// alone: keep it where only what boots can read it.
//
// A Gate may be used from any goroutine.
package substrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// Gate stands before every boot of one audience.
type Gate struct {
	client *client.Client
	keys   atomic.Pointer[ticket.AudienceKeys]
	now    func() time.Time
}

// Option changes a Gate while it is made.
type Option func(*Gate)

// WithClock judges expiry by another clock. For tests.
func WithClock(now func() time.Time) Option { return func(g *Gate) { g.now = now } }

// New makes a gate of an audience's keys. The client's token is that of a consumer with the
// role substrate and this audience.
func New(c *client.Client, keys ticket.AudienceKeys, options ...Option) *Gate {
	g := &Gate{client: c, now: time.Now}
	g.keys.Store(&keys)
	for _, option := range options {
		option(g)
	}
	return g
}

// SetKeys takes other keys, as a step of their rotation. Until a new one is here, Verify calls
// its tickets forged, and Redeem leaves them to the replica.
func (g *Gate) SetKeys(keys ticket.AudienceKeys) { g.keys.Store(&keys) }

// Rejected is why nothing boots. errors.Is(err, ticket.Replayed) asks for the reason, and
// errors.Is(err, api.TicketRejected) whether it was over the ticket at all.
type Rejected struct {
	Reason  ticket.Reason
	Refusal *api.Refusal
}

// Error says the reason and what is known of it, and nothing of the ticket itself.
func (r *Rejected) Error() string {
	if r.Refusal.Detail == "" {
		return r.Reason.Error()
	}
	return r.Reason.Error() + ": " + r.Refusal.Detail
}

// Unwrap returns the reason and the refusal.
func (r *Rejected) Unwrap() []error { return []error{r.Reason, r.Refusal} }

// Verify judges a ticket by itself and returns what it claims. The error is a *Rejected. What
// passes may have been released or used before: only Redeem knows.
func (g *Gate) Verify(text string) (ticket.Claims, error) {
	keys := g.keys.Load()
	claims, err := keys.Verify(ticket.Text(text), ticket.Expect{Now: g.now()})
	if err == nil {
		return claims, nil
	}
	reason := ticket.Malformed
	errors.As(err, &reason)
	r := &api.Refusal{Code: api.TicketRejected, Reason: reason.String()}
	if said, err := ticket.Inspect(ticket.Text(text)); err == nil {
		r.Detail = detail(reason, said, keys)
	}
	return ticket.Claims{}, &Rejected{reason, r}
}

// detail says what a ticket that was refused said of itself, for whoever looks into it.
func detail(why ticket.Reason, said ticket.Claims, keys *ticket.AudienceKeys) string {
	switch why {
	case ticket.Forged:
		return fmt.Sprintf("it names key %q; here are %s", said.KeyID, strings.Join(keys.KeyIDs(), ", "))
	case ticket.OtherHost:
		return fmt.Sprintf("it is for %q; this is %q", said.Audience, keys.Audience())
	case ticket.Expired:
		return "it expired at " + said.Expires.Format(time.RFC3339)
	}
	return ""
}

// errNoInstance is a caller's mistake: without a name a lost answer would be a replay.
var errNoInstance = errors.New("redeem: name the instance that is to boot, and the same when asking again")

// Redeem verifies a ticket and gives it up for one boot, which may begin when the error is nil
// and not otherwise. A *Rejected is final for this ticket; anything else, such as an
// api.Unavailable or a client.Unreachable, is not now: boot nothing, and ask again with the
// same instance.
func (g *Gate) Redeem(ctx context.Context, text, instance string) (*api.Redemption, error) {
	if instance == "" {
		return nil, errNoInstance
	}
	claims, err := g.Verify(text)
	if err != nil {
		said, unjudged := g.cannotJudge(text)
		if !unjudged {
			return nil, err
		}
		claims = said
	}
	r, err := g.client.RedeemTicket(ctx, api.TicketRequest{Ticket: text, Instance: instance})
	if err != nil {
		return nil, rejected(err)
	}
	if r.ID != claims.AdmissionID || r.Epoch != claims.Epoch {
		return nil, fmt.Errorf("redeem: the answer is about %s at epoch %d, and the ticket about %s at %d", r.ID, r.Epoch, claims.AdmissionID, claims.Epoch)
	}
	return r, nil
}

// cannotJudge says whether a ticket for this audience names a key that is not held here: one
// that came into use before it came here. The replica that redeems it has every key, so a
// rotation that this gate lags behind refuses no boot.
func (g *Gate) cannotJudge(text string) (said ticket.Claims, yes bool) {
	keys := g.keys.Load()
	said, err := ticket.Inspect(ticket.Text(text))
	return said, err == nil && said.Audience == keys.Audience() && !slices.Contains(keys.KeyIDs(), said.KeyID)
}

// rejected gives a refusal over the ticket its reason.
func rejected(err error) error {
	refusal, ok := api.AsRefusal(err)
	if !ok || refusal.Code != api.TicketRejected {
		return err
	}
	reason, ok := ticket.ParseReason(refusal.Reason)
	if !ok {
		return err // a later server's: still no boot
	}
	return &Rejected{reason, refusal}
}
