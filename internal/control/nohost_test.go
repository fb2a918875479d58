package control_test

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// A pool without hosts admits with no host at all: a slot and a ticket for its substrate, kept
// by heartbeats that mint the ticket anew, and given back at once.
func TestWithoutHosts(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		cloud(r)
		r.must(r.g.Ready(r.t.Context()))
		a := r.admit("k", "cell")
		if a.Host != "" || a.HeartbeatMS != (pool.DefaultTicketTTL/3).Milliseconds() {
			r.t.Errorf("admitted at %q, heartbeat in %d ms", a.Host, a.HeartbeatMS)
		}
		first := r.claims(a.Ticket)
		time.Sleep(time.Minute)
		out, err := r.g.Heartbeat(r.t.Context(), alice, "k")
		r.want("yes", out, err)
		second := r.claims(out.Admission.Ticket)
		if second.Epoch != first.Epoch || second.Expires.Sub(first.Expires) != time.Minute || out.Admission.Ticket == a.Ticket {
			r.t.Errorf("minted anew: %+v, after %+v", second, first)
		}
		r.wait("next", "cell", "slot", queue)
		polled := r.poll(r.t.Context(), "next", 30*time.Second)
		time.Sleep(time.Second)
		before := time.Now()
		out, err = release(r)
		r.want("released", out, err)
		if got := <-polled; got.word != "yes" || got.at.Sub(before) > 0 {
			r.t.Errorf("the next was told %q %v after the release", got.word, got.at.Sub(before))
		}
		r.release("next")
		r.wantHeld(0, 0, 0)
	})
}

func (r *rig) claims(text string) ticket.Claims {
	r.t.Helper()
	keys, err := r.keys.Audience(ticket.ForSubstrate("cloud"))
	r.must(err)
	c, err := keys.Verify(ticket.Text(text), ticket.Expect{Audience: ticket.ForSubstrate("cloud")})
	r.must(err)
	return c
}

// F05, T29, T44: a slot without a host lives by its heartbeats, however long the work takes;
// without them it is over after its time to live, and its place goes to the next.
func TestSlotsWithoutHostsLapse(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		cell(r)
		for range 10 {
			time.Sleep(5 * time.Minute)
			out, err := heartbeat(r)
			r.want("yes", out, err)
		}
		r.wait("next", "cell", "slot", patience(time.Hour))
		polled := r.poll(r.t.Context(), "next", 30*time.Second)
		if got := <-polled; got.word != "waiting" {
			r.t.Errorf("the next was told %q", got.word)
		}
		time.Sleep(pool.DefaultSlotTTL)
		if state := r.row("k").State; state != pool.Expired {
			r.t.Errorf("nothing was heard of it for its time to live, and it is %s", state)
		}
		out, err := heartbeat(r)
		r.want("not_found", out, err)
		out, err = r.g.Attempt(r.t.Context(), alice, "next", 0)
		r.want("yes", out, err)
		r.release("next")
	})
}

// T55: an outage of the store, in which no heartbeat could be taken, expires nothing. Each
// slot has its time again afterwards.
func TestAnOutageExpiresNothing(t *testing.T) {
	var plan []storetest.Fault
	for _, call := range []string{"Pulse", "Sweep", "Hear"} {
		for n := range 1000 {
			plan = append(plan, storetest.Fault{Call: call, Nth: n + 13})
		}
	}
	bubble(t, nil, func(r *rig) {
		cell(r)
		time.Sleep(time.Minute)
		out, err := heartbeat(r) // the first of them; those of the outage fail
		r.want("yes", out, err)
		time.Sleep(time.Hour)
		r.store.Mend()
		time.Sleep(pool.DefaultSlotTTL - time.Minute)
		if state := r.row("k").State; state != pool.Admitted {
			r.t.Fatalf("after an outage it is %s, before anybody could be heard for its time", state)
		}
		out, err = heartbeat(r)
		r.want("yes", out, err)
		r.release("k")
	}, plan...)
}
