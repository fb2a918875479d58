package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// alone is an agent without a replica: it has no keys but its own, and no incarnation.
func alone(c *agent.Config) {
	c.Keys = ticket.AudienceKeys{}
	c.Register = agent.Alone
}

func (r *rig) reserveOwn(ask boot.Ask) boot.Reservation {
	r.t.Helper()
	got, err := r.boot.Reserve(r.t.Context(), ask)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func ownAsk(mb int64) boot.Ask {
	quarter, floor := 0.25, int64(32)
	return boot.Ask{MemoryMB: mb, Reserve: &boot.ReserveRule{Fraction: &quarter, FloorMB: &floor}}
}

// The rung "host gate alone": a node daemon reserves, redeems, tracks and is done, with no
// replica and no store anywhere.
func TestHostGateAlone(t *testing.T) {
	r := startRig(t, alone)
	got := r.reserveOwn(ownAsk(512))
	if !host.Local(got.ID) || got.Host != hostID || got.NeedMB != 128 || got.MemoryMB != 512 ||
		got.ExpiresIn <= 50*time.Second || got.ExpiresIn > time.Minute {
		t.Errorf("reservation %+v", got)
	}
	if v := r.view(); v.Account.Reserved != 128*gate.MiB || v.Verdict.Incarnation != 0 {
		t.Errorf("reserved %s in life %d", v.Account.Reserved, v.Verdict.Incarnation)
	}
	s := r.redeem(got.Ticket)
	c := startChild(t, "sleep", "1000")
	if err := s.Track(t.Context(), c.pid()); err != nil {
		t.Fatal(err)
	}
	if v := r.view(); v.Reservations != 0 || len(v.Sandboxes) != 1 || v.Sandboxes[0].Identity.Key != got.ID {
		t.Errorf("after Track: %+v", v.Sandboxes)
	}
	_, err := r.boot.Renew(t.Context(), got.Ticket)
	refused(t, err, api.InvalidRequest, "it runs")
	c.Process.Kill()
	<-c.over
	if err := s.Done(t.Context(), "over"); err != nil {
		t.Error(err)
	}
	r.idle()
	_, err = r.boot.Redeem(t.Context(), got.Ticket)
	refused(t, err, api.TicketRejected, "replayed")
}

// What a host admitted by itself is in nothing that a replica is told or compares, so it is
// no stranger to one that is added later; and it keeps running, and its ticket good, when
// the host joins a fleet under another incarnation and with that fleet's keys.
func TestOwnReservationsAreNobodyElsesWhenTheHostJoinsAFleet(t *testing.T) {
	fleet := ticket.AudienceKeys{}
	r := startRig(t, func(c *agent.Config) { fleet = c.Keys }, alone)
	feed := r.Subscribe()
	waits := r.reserveOwn(ownAsk(256))
	runs := r.reserveOwn(ownAsk(256))
	cmd := shell("sleep 1000")
	cmd.Detach = true
	if _, err := r.boot.Run(t.Context(), runs.Ticket, cmd, io.Discard, io.Discard, nil); err != nil {
		t.Fatal(err)
	}
	r.restart(func() {
		r.cfg.Keys = fleet
		r.cfg.Register = func(context.Context, string) (int64, error) { return 42, nil }
	})
	if r.Incarnation() != 42 {
		t.Errorf("life %d", r.Incarnation())
	}
	if v := r.view(); v.Reservations != 1 || len(v.Sandboxes) != 1 {
		t.Errorf("after joining %d reserved, %d run", v.Reservations, len(v.Sandboxes))
	}
	later := r.Subscribe()
	// A replica's own work goes on beside them.
	s := r.redeem(r.reserve("a", 1))
	if held := r.holding(); len(held.Reserved) != 0 || len(held.Sandboxes) != 1 || held.Sandboxes[0].ID != "a" {
		t.Errorf("a replica would hear of %+v", held)
	}
	s.Close()
	own := r.redeem(waits.Ticket)
	own.Close()
	if err := r.boot.Release(t.Context(), runs.Ticket); err != nil {
		t.Error(err)
	}
	r.idle()
	if held := r.holding(); len(held.Ends) != 1 || held.Ends[0].ID != "a" {
		t.Errorf("ends that a replica must write: %+v", held.Ends)
	}
	for _, f := range []*agent.Feed{feed, later} {
		for n, ok, _ := f.Take(); ok; n, ok, _ = f.Take() {
			for _, e := range n.Ends {
				if host.Local(e.ID) {
					t.Errorf("told the end of %+v", e)
				}
			}
			for _, ref := range append(n.Tracks, n.Reopens...) {
				if host.Local(ref.ID) {
					t.Errorf("told of %+v", ref)
				}
			}
		}
	}
}

func (r *rig) holding() host.Held {
	r.t.Helper()
	held, err := r.Holding(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return held
}

// Neither key is good for what the other one's tickets are for.
func TestOwnKeysAndThoseOfAFleetAreKeptApart(t *testing.T) {
	r := startRig(t)
	_, err := r.boot.Redeem(t.Context(), r.mint(host.LocalPrefix+"x", 1, gate.MiB))
	refused(t, err, api.TicketRejected, "forged")
	_, err = r.boot.Renew(t.Context(), r.reserve("a", 1))
	refused(t, err, api.TicketRejected, "reserve here gave")
	refused(t, r.boot.Release(t.Context(), r.mint("a", 1, gate.MiB)), api.TicketRejected, "reserve here gave")
	data, err := os.ReadFile(filepath.Join(r.tmp, "own-keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ticket.ParseAudienceKeys(data)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	text, err := keys.Mint(&ticket.Claims{AdmissionID: "a", Epoch: 1, Issued: now, Expires: now.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.boot.Redeem(t.Context(), text.Reveal())
	refused(t, err, api.TicketRejected, "forged")
	if info, err := os.Stat(filepath.Join(r.tmp, "own-keys.json")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the keys' file is %v, %v", info.Mode(), err)
	}
	r.Do(t.Context(), host.Release{ID: "a", Gen: 1})
}

// The 26th is told what it would need, what is left, and when to come back.
func TestOwnReserveIsRefusedWithFigures(t *testing.T) {
	r := startRig(t, alone, func(c *agent.Config) {
		c.Host.Labels = []gate.Label{{Name: "zone", Value: "a"}}
		c.Host.Dims = []gate.Dim{{Name: "gpus", N: 2}}
	})
	var last error
	fitted := int64(0)
	for ; last == nil; fitted++ {
		_, last = r.boot.Reserve(t.Context(), ownAsk(1024))
	}
	var no *boot.Denied
	if !errors.As(last, &no) || no.Code != api.NoCapacity || no.NeedMB != 256 || no.AdmittableMB >= 256 || no.Intake != "open" ||
		no.RetryAfter < 500*time.Millisecond || no.RetryAfter > time.Minute || no.WhoseNo() != api.ScopeHost {
		t.Errorf("after %d: %#v", fitted-1, last)
	}
	if v := r.view(); v.Account.Reserved != gate.FromMiB(256*(fitted-1)) {
		t.Errorf("%d fitted, and %s is reserved", fitted-1, v.Account.Reserved)
	}
	for name, tt := range map[string]struct {
		ask  boot.Ask
		code api.Code
		says string
	}{
		"more than there ever is": {boot.Ask{MemoryMB: 1 << 20, Stateful: true}, api.Infeasible, "could never promise"},
		"another zone":            {boot.Ask{MemoryMB: 1, Labels: map[string]string{"zone": "b"}}, api.Infeasible, "zone"},
		"a dimension not here":    {boot.Ask{MemoryMB: 1, Dims: map[string]int64{"disk": 1}}, api.Infeasible, "disk"},
		"too much of one":         {boot.Ask{MemoryMB: 1, Dims: map[string]int64{"gpus": 3}}, api.Infeasible, "gpus"},
		"no memory":               {boot.Ask{}, api.InvalidRequest, "memory_mb"},
		"less than none":          {boot.Ask{MemoryMB: 1, Dims: map[string]int64{"gpus": -1}}, api.InvalidRequest, "gpus"},
		"absurd":                  {boot.Ask{MemoryMB: 1 << 40}, api.InvalidRequest, "memory_mb"},
		"no cores":                {boot.Ask{MemoryMB: 1, CPU: -1}, api.InvalidRequest, "cpu"},
		"a long name":             {boot.Ask{MemoryMB: 1, Class: strings.Repeat("x", 200)}, api.InvalidRequest, "class"},
		"a fraction of 2":         {boot.Ask{MemoryMB: 1, Reserve: &boot.ReserveRule{Fraction: ptr(2.0)}}, api.InvalidRequest, "fraction"},
		"a floor below":           {boot.Ask{MemoryMB: 1, Reserve: &boot.ReserveRule{FloorMB: ptr(int64(-1))}}, api.InvalidRequest, "floor_mb"},
		"settled before":          {boot.Ask{MemoryMB: 1, Reserve: &boot.ReserveRule{SettleAfterMS: -1}}, api.InvalidRequest, "settle_after_ms"},
		"a great lord":            {boot.Ask{MemoryMB: 1, Priority: 1 << 30}, api.InvalidRequest, "priority"},
	} {
		_, err := r.boot.Reserve(t.Context(), tt.ask)
		if refused(t, err, tt.code, tt.says); t.Failed() {
			t.Fatal(name)
		}
	}
	for _, order := range []host.Intake{host.IntakeCordoned, host.IntakeDraining} {
		r.Do(t.Context(), host.SetIntake{Intake: order})
		_, err := r.boot.Reserve(t.Context(), ownAsk(1))
		refused(t, err, api.HostDraining, order.String())
	}
}

func ptr[T any](v T) *T { return &v }

// A word that the seam does not know in an ask is refused: "statefull" would be charged a
// quarter.
func TestAnAskIsStrict(t *testing.T) {
	r := startRig(t, alone)
	w := dial(t, r)
	fmt.Fprintln(w.Conn, `{"op":"reserve","ask":{"memory_mb":1,"statefull":true}}`)
	w.refused(t, api.InvalidRequest)
	w = dial(t, r)
	fmt.Fprintln(w.Conn, `{"op":"reserve"}`)
	w.refused(t, api.InvalidRequest)
}

// What is renewed lives on; what is not lapses by itself, and is told to nobody.
func TestOwnReservationsAreRenewedOrLapse(t *testing.T) {
	r := startRig(t, alone, func(c *agent.Config) { c.Host.BootWithin = 5 * time.Second })
	got := r.reserveOwn(ownAsk(512))
	first := r.lapses(got.ID)
	again, err := r.boot.Renew(t.Context(), got.Ticket)
	if err != nil || again.ID != got.ID || again.NeedMB != got.NeedMB || r.lapses(got.ID) <= first {
		t.Errorf("renewed to %+v, %v; until %s, was %s", again, err, r.lapses(got.ID), first)
	}
	r.idle()
	_, err = r.boot.Redeem(t.Context(), again.Ticket)
	refused(t, err, api.ReservationLapsed, "")
	_, err = r.boot.Renew(t.Context(), got.Ticket)
	refused(t, err, api.ReservationLapsed, "")
	if held := r.holding(); len(held.Ends) != 0 {
		t.Errorf("ends %+v", held.Ends)
	}
}

// lapses is when a reservation lapses, by the host's clock.
func (r *rig) lapses(id string) host.Instant {
	r.t.Helper()
	v, err := r.Verdict(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := r.Do(r.t.Context(), host.Renew{ID: id, Epoch: 1, Incarnation: v.Incarnation}) // never shortens
	if err != nil || answer.Denial != "" {
		r.t.Fatal(answer.Denial, err)
	}
	return answer.Until
}

// Who takes away what was promised may be anybody who has the ticket and the right.
func TestOwnReservationsAreReleased(t *testing.T) {
	r := startRig(t, alone)
	got := r.reserveOwn(ownAsk(512))
	for range 2 {
		if err := r.boot.Release(t.Context(), got.Ticket); err != nil {
			t.Error(err)
		}
	}
	r.idle()
	_, err := r.boot.Redeem(t.Context(), got.Ticket)
	refused(t, err, api.TicketRejected, "released")
}

// Whoever may not spend this host's memory may not, by the kernel's word; one in the group
// that the file names may.
func TestWhoMayReserve(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	group := uint32(4242)
	r := startRig(t, alone)
	in := startRig(t, alone, func(c *agent.Config) { c.ReserveGroup = &group })
	for _, tt := range []struct {
		rig *rig
		uid uint32
		may bool
	}{{r, 0, true}, {r, 4711, false}, {in, 4711, true}} {
		c := booter(t, booterOrder{Socket: tt.rig.boot.Socket, Reserve: true}, tt.uid)
		out, err := c.Output()
		if may := strings.HasPrefix(string(out), "reserved"); may != tt.may {
			t.Errorf("uid %d: %s %v", tt.uid, out, err)
		}
	}
}
