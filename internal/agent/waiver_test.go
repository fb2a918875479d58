package agent_test

import (
	"io"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// A bypass waives the ticket and nothing else: what is asked for is charged, and refused where
// there is no room. It outlives a restart of the agent, and so does what it let in; both are
// told to the next replica. Without it nothing boots outside the gate (T73).
func TestBypass(t *testing.T) {
	r := startRig(t)
	small := boot.Ask{MemoryMB: 64, Key: "night-shift"}
	_, err := r.boot.Unticketed(t.Context(), small)
	refused(t, err, api.TicketRejected, "without a ticket")
	_, err = r.boot.SetBypass(t.Context(), time.Minute, "")
	refused(t, err, api.InvalidRequest, "reason")
	b, err := r.boot.SetBypass(t.Context(), time.Hour, "the store burns")
	if err != nil || !b.Active || b.ForMS <= 0 {
		t.Fatalf("%+v %v", b, err)
	}
	_, err = r.boot.Unticketed(t.Context(), boot.Ask{MemoryMB: 1 << 24, Stateful: true})
	refused(t, err, api.NoCapacity, "no_room")
	cmd := shell("sleep 1000")
	cmd.Detach = true
	if _, err := r.boot.RunUnticketed(t.Context(), small, cmd, io.Discard, io.Discard, nil); err != nil {
		t.Fatal(err)
	}
	// A ticket that is none here any more boots by what it says; one that is used does not.
	lapsed := r.redeem(r.mint("lapsed", 7, 64*gate.MiB))
	if lapsed.Waiver != "bypass" || lapsed.MemoryMB != 64 {
		t.Errorf("%+v", lapsed)
	}
	lapsed.Close()
	text := r.reserve("a", 1)
	s := r.redeem(text)
	if s.Waiver != "" {
		t.Errorf("a good ticket was passed over: %+v", s)
	}
	_, err = r.boot.Redeem(t.Context(), text)
	refused(t, err, api.TicketRejected, "replayed")
	s.Close()
	r.restart()
	if b, err = r.boot.Bypass(t.Context()); err != nil || !b.Active || b.Booted != 2 || b.Reason != "the store burns" {
		t.Errorf("after a restart %+v %v", b, err)
	}
	var left host.Sandbox
	r.eventually("only what runs is left", func() bool {
		v := r.view()
		if len(v.Sandboxes) == 1 {
			left = v.Sandboxes[0]
		}
		return len(v.Sandboxes) == 1
	})
	if left.Waiver != host.ByBypass || left.Identity.Key != "night-shift" || left.Phase != host.Running {
		t.Errorf("%+v", left)
	}
	if b, err = r.boot.SetBypass(t.Context(), 0, "it is out"); err != nil || b.Active {
		t.Errorf("%+v %v", b, err)
	}
	_, err = r.boot.Unticketed(t.Context(), small)
	refused(t, err, api.TicketRejected, "without a ticket")
	if deeds := r.holding().Deeds; len(deeds) != 2 || deeds[0].Reason != "the store burns" || deeds[1].Reason != "it is out" {
		t.Errorf("to be audited: %+v", deeds)
	} else if first, second := deeds[0], deeds[1]; first.Incarnation != r.Incarnation() || second.Incarnation != first.Incarnation || second.N <= first.N {
		t.Errorf("the audit could not tell one from the other: %+v", deeds)
	}
	r.Do(t.Context(), host.Release{ID: left.ID, Gen: left.Epoch}) // a person's word ends it, nothing else does
	r.idle()
}

// On a host in shadow everything boots, with or without a ticket, and is told to have.
func TestShadowBootsEverything(t *testing.T) {
	r := startRig(t)
	if _, err := r.Do(t.Context(), host.SetEnforcement{To: host.Shadow}); err != nil {
		t.Fatal(err)
	}
	s, err := r.boot.Unticketed(t.Context(), boot.Ask{MemoryMB: 1 << 24, Stateful: true})
	if err != nil || s.Waiver != "shadow" {
		t.Fatalf("%+v %v", s, err)
	}
	old := r.redeem(r.mint("never-reserved", 3, gate.MiB))
	if old.Waiver != "shadow" {
		t.Errorf("%+v", old)
	}
	if v := r.view(); v.Verdict.Admittable != 0 || len(v.Waived) == 0 {
		t.Errorf("%+v", v)
	}
	s.Close()
	old.Close()
	if _, err := r.Do(t.Context(), host.SetEnforcement{To: host.Enforce}); err != nil {
		t.Fatal(err)
	}
	_, err = r.boot.Redeem(t.Context(), r.mint("never-reserved", 3, gate.MiB))
	refused(t, err, api.ReservationLapsed, "")
	r.idle()
}
