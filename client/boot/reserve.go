package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// Ask is what a sandbox wants of this host. Only MemoryMB must be said.
type Ask struct {
	MemoryMB   int64             `json:"memory_mb"`              // configured size
	CPU        float64           `json:"cpu,omitempty"`          // cores; it refuses nothing
	Key        string            `json:"key,omitempty"`          // your own name for it, for people
	Class      string            `json:"class,omitempty"`        // a name for its kind, likewise
	Template   string            `json:"template,omitempty"`     // default: the class
	Stateful   bool              `json:"stateful,omitempty"`     // charged in full, never reclaimed
	HoldOnExit bool              `json:"hold_on_exit,omitempty"` // an exit keeps the ticket for a start anew
	Priority   int               `json:"priority,omitempty"`     // higher is kept longer when memory runs out
	Labels     map[string]string `json:"labels,omitempty"`       // this host must carry them
	Dims       map[string]int64  `json:"dims,omitempty"`         // and have so much left of each
	Reserve    *ReserveRule      `json:"reserve_rule,omitempty"` // default: what 30 runs of the template showed here; before, a quarter, at least 512 MiB, for life
}

// ReserveRule says how much a stateless sandbox is charged at least, and for how long. What
// is left out has the default.
type ReserveRule struct {
	Fraction      *float64 `json:"fraction,omitempty"` // of the configured memory; 0.25
	FloorMB       *int64   `json:"floor_mb,omitempty"` // 512
	UntilSettled  bool     `json:"until_settled,omitempty"`
	SettleAfterMS int64    `json:"settle_after_ms,omitempty"` // 10,000
}

// UnmarshalJSON refuses what it does not know: a misspelt "stateful" would be charged as if
// it were not.
func (a *Ask) UnmarshalJSON(text []byte) error {
	type plain Ask
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	return in.Decode((*plain)(a))
}

// Reservation is memory that this host promised by itself.
type Reservation struct {
	ID        string
	Epoch     int64
	Host      string
	Ticket    string // what Redeem and Run take
	MemoryMB  int64  // configured size
	NeedMB    int64  // what is set aside for it
	ExpiresIn time.Duration
}

// Denied is a no with the figures that it rests on. errors.Is(err, api.NoCapacity) asks it
// for its code; RetryAfter is when to ask again.
type Denied struct {
	*api.Refusal
	NeedMB       int64 // what the ask would take
	AdmittableMB int64 // what the host can still promise
	Intake       string
}

// Unwrap makes errors.As find the refusal.
func (d *Denied) Unwrap() error { return d.Refusal }

// Reserve asks this host alone, without a replica, to set memory aside. A refusal is a
// *Denied. Root may, the agent's own user, and whoever is in the group that its file names.
func (c Client) Reserve(ctx context.Context, ask Ask) (Reservation, error) {
	r, err := c.once(ctx, Request{Op: OpReserve, Ask: &ask}, EvReserved)
	return r.reservation(), err
}

// Renew keeps what Reserve gave: the reservation lives on for as long as a new one, and its
// ticket is replaced. The former ticket is as good as the new one.
func (c Client) Renew(ctx context.Context, ticket string) (Reservation, error) {
	r, err := c.once(ctx, Request{Op: OpRenew, Ticket: ticket}, EvReserved)
	return r.reservation(), err
}

// Release gives back what Reserve gave. A sandbox that was booted with it is stopped. It may
// be said twice.
func (c Client) Release(ctx context.Context, ticket string) error {
	_, err := c.once(ctx, Request{Op: OpRelease, Ticket: ticket}, EvReleased)
	return err
}

// Classes asks this host what it has learned by itself of the sandboxes that it admitted by itself.
func (c Client) Classes(ctx context.Context) (api.ClassList, error) {
	r, err := c.once(ctx, Request{Op: OpClasses}, EvClasses)
	if err == nil && r.Classes == nil {
		err = errors.New("the agent showed nothing; is it of another version?")
	}
	if err != nil {
		return api.ClassList{}, err
	}
	return *r.Classes, nil
}

// Show asks this host for its arithmetic, as a replica would show it.
func (c Client) Show(ctx context.Context) (api.Host, error) {
	r, err := c.once(ctx, Request{Op: OpShow}, EvShown)
	if err == nil && r.Shown == nil {
		err = errors.New("the agent showed nothing; is it of another version?")
	}
	if err != nil {
		return api.Host{}, err
	}
	return *r.Shown, nil
}

// once puts one question on a connection of its own.
func (c Client) once(ctx context.Context, q Request, want string) (Reply, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return Reply{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.send(q); err != nil {
		return Reply{}, err
	}
	r, err := conn.receive()
	switch {
	case ctx.Err() != nil:
		return Reply{}, context.Cause(ctx)
	case err != nil:
		return Reply{}, err
	case r.Event == EvRefused:
		return Reply{}, r.denied()
	case r.Event != want:
		return Reply{}, fmt.Errorf("the agent answered %q to %s; is it of another version?", r.Event, q.Op)
	}
	return r, nil
}

func (r Reply) denied() error {
	return &Denied{
		Refusal: &api.Refusal{
			Code: r.Code, Detail: r.Detail, Scope: api.ScopeHost,
			RetryAfter: time.Duration(r.RetryAfterMS) * time.Millisecond,
		},
		NeedMB: r.NeedMB, AdmittableMB: r.AdmittableMB, Intake: r.Intake,
	}
}

func (r Reply) reservation() Reservation {
	return Reservation{
		ID: r.ID, Epoch: r.Epoch, Host: r.Host, Ticket: r.Ticket, MemoryMB: r.MemoryMB, NeedMB: r.NeedMB,
		ExpiresIn: time.Duration(r.ExpiresInMS) * time.Millisecond,
	}
}
