package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// TestTraps has what the ADR's published code does against the ADR's own word, by the
// numbers of the design's list. None of it may happen here.
func TestTraps(t *testing.T) {
	t.Run("5 a silent waiter is collected and given a new place", testKeptPlace)
	t.Run("6 one dead waiter blocks its pool", testDeadWaiter)
	t.Run("7 rows carry somebody else's clock", testStoresClock)
	t.Run("8 a stale row revives over the cap, and a long process outlives its slot", testStaleRow)
	t.Run("9 a typo in caps becomes the default, and the sum is checked nowhere", testCaps)
	t.Run("10 a release leaves a live ticket", testReleasedTicket)
	t.Run("11 one broken host mints for all", TestOneAudienceForgesForItselfAlone)
	t.Run("12 max_queue_age is not enforced, and refuse mode leaves a ghost", testPatience)
}

func (r *rig) enqueue(who, key string, position int64) api.Waiting {
	r.t.Helper()
	_, err := r.sdk(who).Admit(r.t.Context(), api.AdmissionRequest{Key: key, Class: "one", Mode: api.WaitModeQueue}, client.Options{Wait: client.Once})
	return r.waits(err, position)
}

func (r *rig) attempt(who, key string, position int64) *api.Admission {
	r.t.Helper()
	a, err := r.sdk(who).Resume(r.t.Context(), key, client.Options{Wait: client.Once})
	if position == 0 {
		r.must(err)
		return a
	}
	r.waits(err, position)
	return nil
}

// Also F04.
func testKeptPlace(t *testing.T) {
	r := newCloud(t)
	r.admit("eve", "holder", "one")
	first := r.enqueue("ci", "first", 1)
	r.enqueue("chat", "second", 2)
	r.outlive(9 * time.Minute) // nothing is heard of it, but for its place's 10 minutes
	r.call("eve", "POST", "/v1/admissions/holder/heartbeat", "")
	r.attempt("ci", "first", 1)
	r.attempt("chat", "second", 2)
	row, _, err := r.store.Get(t.Context(), "ci", "first")
	r.must(err)
	if row.ID != first.ID || row.Place != 1 {
		t.Errorf("%+v", row)
	}
}

// Also T81, T85.
func testDeadWaiter(t *testing.T) {
	r := newCloud(t)
	r.admit("eve", "holder", "one")
	r.enqueue("ci", "dead", 1)
	r.enqueue("chat", "alive", 2)
	r.call("eve", "DELETE", "/v1/admissions/holder", "")
	r.attempt("chat", "alive", 2) // the slot is the dead one's for two seconds
	r.clock.Advance(pool.Grace)
	r.attempt("chat", "alive", 0)
	r.attempt("ci", "dead", 1) // it was passed over, and kept its place
}

func testStoresClock(t *testing.T) {
	for _, wrong := range []time.Duration{-time.Hour, time.Hour} {
		r := newRig(t, options{noHost: true, document: cloud(), wall: wrong})
		a := r.admit("ci", "k1", "one")
		now := r.clock.Now().Wall()
		if !a.CreatedAt.Equal(now) || !a.AdmittedAt.Equal(now) || !a.ExpiresAt.Equal(now.Add(pool.DefaultTicketTTL)) {
			t.Errorf("the replica's clock is %v off: %+v", wrong, a)
		}
		r.redeem("provider", a.Ticket, "vm-1")
		if got := r.call("ci", "GET", "/v1/admissions/k1", "").admission(); !got.StartedAt.Equal(now) {
			t.Errorf("%+v", got)
		}
	}
}

// Also T46, F05.
func testStaleRow(t *testing.T) {
	r := newCloud(t)
	stale := r.admit("ci", "stale", "one")
	r.outlive(pool.DefaultSlotTTL + time.Minute)
	r.admit("chat", "next", "one") // the pool's only slot
	r.refused(api.NotFound, "ci", "POST", "/v1/admissions/stale/heartbeat", "")
	r.rejects(ticket.Expired, "provider", stale.Ticket, "vm-1")
	v := r.report("provider", "solo", api.RunningReport{Running: []api.RunningSandbox{{ID: stale.ID, Epoch: stale.Epoch}}})
	if v.Renewed != 0 || len(v.OutOfGate) != 1 {
		t.Errorf("%+v", v)
	}
	r.refused(api.PoolFull, "ci", "POST", "/v1/admissions", `{"key":"stale","class":"one"}`)
	if p := r.pool("olga", "solo"); p.Busy != 1 {
		t.Errorf("%+v", p)
	}
	for range 6 { // a long process, detached from whoever started it
		r.outlive(5 * time.Minute)
		r.call("chat", "POST", "/v1/admissions/next/heartbeat", "")
	}
	if p := r.pool("olga", "solo"); p.Busy != 1 {
		t.Errorf("%+v", p)
	}
}

// Also F06, T95.
func testCaps(t *testing.T) {
	r := newCloud(t)
	put := func(code api.Code, was, is, says string) {
		t.Helper()
		document := strings.Replace(cloud(), was, is, 1)
		p := r.refused(code, "root", "PUT", "/v1/config", fmt.Sprintf(`{"generation":1,"document":%q}`, document))
		if len(p.Errors) == 0 || p.Errors[0].Line == 0 || !strings.Contains(fmt.Sprint(p.Errors), says) {
			t.Errorf("%s: %+v", is, p)
		}
	}
	put(api.InvalidConfig, "cap: 4", "cap: 4O", "no whole number")
	put(api.InvalidConfig, "cap: 4", "cpa: 4", "did you mean cap")
	put(api.InvalidConfig, "cap: 4", "cap: 10", "sum to 13 and the ceiling is 12")
	if p := r.pool("olga", "browser"); p.Cap != 4 {
		t.Errorf("%+v", p)
	}
	empty := newRig(t, options{noHost: true, noConfig: true})
	empty.refused(api.Unauthenticated, "ci", "POST", "/v1/admissions", `{"key":"k","class":"one"}`)
	empty.refused(api.Unavailable, "", "GET", "/readyz", "")
}

func testReleasedTicket(t *testing.T) {
	r := newCloud(t)
	a := r.admit("ci", "k1", "one")
	r.call("ci", "DELETE", "/v1/admissions/k1", "")
	r.rejects(ticket.Released, "provider", a.Ticket, "vm-1")
	b := r.admit("ci", "k2", "one") // the slot is free at once
	r.redeem("provider", b.Ticket, "vm-2")
	r.call("ci", "DELETE", "/v1/admissions/k2", "")
	r.rejects(ticket.Released, "provider", b.Ticket, "vm-2") // not even for what it had booted
}

// Also F02, F03.
func testPatience(t *testing.T) {
	r := newCloud(t)
	r.admit("eve", "holder", "one")
	r.refused(api.PoolFull, "ci", "POST", "/v1/admissions", `{"key":"ghost","class":"one"}`)
	r.refused(api.NotFound, "ci", "GET", "/v1/admissions/ghost", "")
	if p := r.pool("olga", "solo"); p.Waiting != 0 {
		t.Errorf("%+v", p)
	}
	a := r.call("ci", "POST", "/v1/admissions", `{"key":"k1","class":"one","mode":"queue","max_queue_age_ms":60000}`)
	if a.Status != 202 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	r.clock.Advance(time.Minute)
	for range 2 {
		p := r.refused(api.QueueTimeout, "ci", "POST", "/v1/admissions/k1/attempt", "")
		if !p.TimedOut || p.QueuedForMS != 60_000 || p.Pool != "solo" {
			t.Errorf("%+v", p)
		}
	}
	if got := r.call("ci", "GET", "/v1/admissions/k1", "").admission(); got.State != api.AdmissionStateTimedOut {
		t.Errorf("%+v", got)
	}
	if p := r.pool("olga", "solo"); p.Waiting != 0 {
		t.Errorf("%+v", p)
	}
}
