package web_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/substrate"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// sandboxes are the ADR's Sandbox DO: they store a ticket that passes, and boot only by one
// that the store still takes.
type sandboxes struct {
	t      *testing.T
	gate   *substrate.Gate
	stored map[string]string // name -> ticket
	boots  []string          // names, in order
}

func newSandboxes(t *testing.T, r *rig, consumer, audience string) *sandboxes {
	t.Helper()
	clock := substrate.WithClock(func() time.Time { return r.clock.Now().Wall() })
	return &sandboxes{t: t, gate: substrate.New(r.sdk(consumer), r.keysOf(audience), clock), stored: map[string]string{}}
}

// admit is "verify, then store the ticket".
func (s *sandboxes) admit(name, text string) error {
	if _, err := s.gate.Verify(text); err != nil {
		return err
	}
	s.stored[name] = text
	return nil
}

// ensure is "ticket gate: verify the stored ticket", and the boot behind it.
func (s *sandboxes) ensure(ctx context.Context, name string) error {
	if slices.Contains(s.boots, name) {
		return nil
	}
	if _, err := s.gate.Redeem(ctx, s.stored[name], name); err != nil {
		return err
	}
	s.boots = append(s.boots, name)
	return nil
}

// booted proves that these boots happened and no other.
func (s *sandboxes) booted(names ...string) {
	s.t.Helper()
	if !slices.Equal(s.boots, names) {
		s.t.Errorf("booted %q, want %q", s.boots, names)
	}
}

// refuses proves that a ticket boots nothing, at the gate or behind it.
func (s *sandboxes) refuses(why ticket.Reason, name, text string) {
	s.t.Helper()
	before := len(s.boots)
	err := s.admit(name, text)
	if err == nil {
		err = s.ensure(s.t.Context(), name)
	}
	delete(s.stored, name)
	if !errors.Is(err, why) || !errors.Is(err, api.TicketRejected) || len(s.boots) != before {
		s.t.Errorf("%s: %v, want %s; booted %q", name, err, why, s.boots)
	}
}

// waits proves that somebody has this place and no slot, and returns what it was told.
func (r *rig) waits(err error, position int64) api.Waiting {
	r.t.Helper()
	var w *client.StillWaiting
	if !errors.As(err, &w) || w.Position != position {
		r.t.Fatalf("%v, want position %d", err, position)
	}
	return w.Waiting
}

// TestADR plays "Admission by ticket", the ADR's sequence diagram, with zero agents: its
// arrows stand beside the calls. C is the consumer, F the facade, D its database, S the
// sandboxes of a substrate.
func TestADR(t *testing.T) {
	r := newCloud(t)
	s, c, ctx := newSandboxes(t, r, "provider", "cloud"), r.sdk("ci"), t.Context()
	r.admit("eve", "first", "one") // the class's pool has one slot

	// C->>F: admissionEnqueue(key, recipe); F->>D: enqueue, a FIFO row in the class's pool
	recipe := api.AdmissionRequest{Key: "run-7", Class: "one", Mode: api.WaitModeQueue}
	_, err := c.Admit(ctx, recipe, client.Options{Wait: client.Once})
	w := r.waits(err, 1)
	if w.Pool != "solo" || *w.PoolBusy != 1 || *w.Cap != 1 || w.WaitingFor != api.WaitingForSlot {
		t.Errorf("%+v", w)
	}
	_, err = r.sdk("chat").Admit(ctx, api.AdmissionRequest{Key: "task", Class: "one", Mode: api.WaitModeQueue}, client.Options{Wait: client.Once})
	r.waits(err, 2)

	// loop durable steps, until admitted
	for range 3 {
		r.clock.Advance(2 * time.Minute) // C hibernates; nobody keeps a connection for it
		// C->>F: admissionAttempt; F->>D: claim if the pool is under its cap; D-->>F: refused
		_, err = c.Resume(ctx, "run-7", client.Options{Wait: client.Once})
		// F-->>C: admitted false, position, poolBusy, cap
		if again := r.waits(err, 1); again.ID != w.ID || *again.PoolBusy != 1 || *again.Cap != 1 {
			t.Errorf("%+v", again)
		}
		// C->>F: ensureSandbox; alt no valid ticket: S-->>F: ticket-rejected, nothing boots
		s.refuses(ticket.Missing, "run-7", "")
	}
	r.call("eve", "DELETE", "/v1/admissions/first", "")
	// F->>F: mint ticket
	a, err := c.Resume(ctx, "run-7", client.Options{Wait: client.Once})
	r.must(err)
	_, err = r.sdk("chat").Resume(ctx, "task", client.Options{Wait: client.Once})
	r.waits(err, 1)

	// F->>S: admit(consumer, key, ticket); S->>S: verify, then store the ticket
	r.must(s.admit("run-7", a.Ticket))
	// C->>F: ensureSandbox; F->>S: ensure; else valid ticket: container restored or rebuilt
	r.must(s.ensure(ctx, "run-7"))
	r.must(s.ensure(ctx, "run-7"))
	s.refuses(ticket.Replayed, "run-7-copy", a.Ticket)

	// C->>F: admissionRelease; F->>D: release the slot
	_, err = c.Release(ctx, "run-7")
	r.must(err)
	s.refuses(ticket.Released, "run-7-again", a.Ticket)
	next, err := r.sdk("chat").Resume(ctx, "task", client.Options{Wait: client.Once})
	r.must(err)
	r.must(s.admit("task", next.Ticket))
	r.must(s.ensure(ctx, "task"))
	s.booted("run-7", "task")
}

// altered is a ticket with another letter of its alphabet at one place.
func altered(text string, at int) string {
	other := "A"
	if text[at] == 'A' {
		other = "B"
	}
	return text[:at] + other + text[at+1:]
}

// TestADRTickets: 10 minutes of life, minted anew by a heartbeat and never extended in place;
// enforced where it boots, so that whoever made the row or the ticket up boots nothing.
func TestADRTickets(t *testing.T) {
	r := newCloud(t)
	s, ctx := newSandboxes(t, r, "provider", "cloud"), t.Context()
	a := r.admit("ci", "run-7", "chrome")
	if life := a.ExpiresAt.Sub(*a.AdmittedAt); life != pool.DefaultTicketTTL {
		t.Errorf("a ticket lives %v", life)
	}
	s.refuses(ticket.Malformed, "x", "plm1.made-up")
	s.refuses(ticket.Forged, "x", altered(a.Ticket, 60))
	s.refuses(ticket.OtherHost, "x", r.forge(a.Ticket, "lab", func(*ticket.Claims) {}))
	s.refuses(ticket.OtherKey, "x", r.forge(a.Ticket, "cloud", func(c *ticket.Claims) { c.Consumer = "chat" }))
	for range 3 {
		r.outlive(4 * time.Minute)
		fresh, err := r.sdk("ci").Heartbeat(ctx, "run-7")
		r.must(err)
		if fresh.Ticket == a.Ticket || fresh.Epoch != a.Epoch || !fresh.ExpiresAt.Equal(a.ExpiresAt.Add(4*time.Minute)) {
			t.Errorf("%+v after %+v", fresh, a)
		}
		a.ExpiresAt = fresh.ExpiresAt
	}
	s.refuses(ticket.Expired, "x", a.Ticket) // 12 minutes old, and its admission lives
	fresh, err := r.sdk("ci").Heartbeat(ctx, "run-7")
	r.must(err)
	r.must(s.admit("run-7", fresh.Ticket))
	r.must(s.ensure(ctx, "run-7"))

	silent := r.admit("chat", "task", "chrome") // whose caller dies here
	r.outlive(11 * time.Minute)
	s.refuses(ticket.Expired, "x", silent.Ticket)
	if _, err := r.sdk("chat").Heartbeat(ctx, "task"); !errors.Is(err, api.NotFound) {
		t.Errorf("a slot that lapsed: %v", err)
	}
	s.booted("run-7")
}
