package control_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
)

// fault is one row of the table: what goes wrong, what the caller of act is told, and what
// it is told when it does the same again. Whether it comes again or not, nothing is held
// at the end: what the caller leaves lapses, and what it holds it gives back.
type fault struct {
	name    string
	store   string // transition that fails; "" for a call to the host
	nth     int    // 0: the first
	host    string // kind of event that fails
	how     string // failed, lost (for the store: persisted), late
	prepare func(*rig)
	act     func(*rig) (control.Outcome, error)
	want    string
	again   string
}

func create(r *rig) (control.Outcome, error) {
	return r.post("k", "small", pinned("h1", api.HostPinModePrefer))
}

func createQueued(r *rig) (control.Outcome, error) { return r.post("k", "large", queue) }

func createLarge(r *rig) (control.Outcome, error) { return r.post("k", "large") }

func release(r *rig) (control.Outcome, error) { return r.g.Release(r.t.Context(), alice, "k", 0) }

func heartbeat(r *rig) (control.Outcome, error) { return r.g.Heartbeat(r.t.Context(), alice, "k") }

func attempt(r *rig) (control.Outcome, error) { return r.g.Attempt(r.t.Context(), alice, "k", 0) }

func createCell(r *rig) (control.Outcome, error) { return r.post("k", "cell") }

func cloud(r *rig) { r.apply(cloudDocument) }

func cell(r *rig) {
	cloud(r)
	r.admit("k", "cell")
}

func admitted(r *rig) { r.admit("k", "small") }

func running(r *rig) { r.boot(r.admit("k", "small")) }

// lapsed is an admission whose host has forgotten it, as after a lost state file.
func lapsed(r *rig) {
	a := r.admit("k", "small")
	r.host(a.Host).step(host.Release{ID: a.ID, Gen: a.Epoch})
}

func draining(r *rig) {
	a := r.admit("k", "small")
	r.host(a.Host).step(host.SetIntake{Intake: host.IntakeDraining})
}

// full leaves each host too little for class large.
func full(r *rig) {
	for _, h := range r.hosts {
		r.admit("filler-"+h.id, "small", pinned(h.id, api.HostPinModeRequire), func(q *api.AdmissionRequest) {
			mb := int64(12 << 10) // charged a quarter
			q.MemoryMB = &mb
		})
	}
}

// faults is the table of every store transition and host call that a passage makes (design
// §12.4 and 8; T28, T36, T40, T75, T81: no path leaks, and an answer that was lost is no
// second admission).
var faults = []fault{
	{name: "claim failed", store: "Claim", how: "failed", act: create, want: "unavailable", again: "yes"},
	// The row is placing, and nobody places it: the caller's retry waits for what may be
	// another call, says so, and the sweep undoes it.
	{name: "claim persisted", store: "Claim", how: "lost", act: create, want: "unavailable", again: "unavailable"},
	{name: "reserve failed", host: "Reserve", how: "failed", act: create, want: "yes", again: "yes"},
	{name: "reserve lost", host: "Reserve", how: "lost", act: create, want: "yes", again: "yes"},
	{name: "reserve late", host: "Reserve", how: "late", act: create, want: "yes", again: "yes"},
	{name: "regen failed", store: "Regen", how: "failed", host: "Reserve", act: create, want: "unavailable", again: "unavailable"},
	// The release is sent until it is heard.
	{name: "reserve and its release lost", host: "Reserve", how: "lost", prepare: func(r *rig) { r.host("h1").fail("Release", "failed") }, act: create, want: "yes", again: "yes"},
	{name: "settle failed", store: "Settle", how: "failed", act: create, want: "yes", again: "yes"},
	{name: "settle persisted", store: "Settle", how: "lost", act: create, want: "yes", again: "yes"},
	{name: "no room failed", store: "NoRoom", how: "failed", prepare: full, act: createLarge, want: "unavailable", again: "unavailable"},
	{name: "no room persisted", store: "NoRoom", how: "lost", prepare: full, act: createLarge, want: "unavailable", again: "no_capacity"},
	{name: "no room failed, queue", store: "NoRoom", how: "failed", prepare: full, act: createQueued, want: "unavailable", again: "unavailable"},
	{name: "no room persisted, queue", store: "NoRoom", how: "lost", prepare: full, act: createQueued, want: "unavailable", again: "waiting"},

	{name: "claim without a host failed", store: "Claim", how: "failed", prepare: cloud, act: createCell, want: "unavailable", again: "yes"},
	{name: "claim without a host persisted", store: "Claim", how: "lost", prepare: cloud, act: createCell, want: "unavailable", again: "yes"},
	{name: "hear failed", store: "Hear", how: "failed", prepare: cell, act: heartbeat, want: "unavailable", again: "yes"},
	{name: "hear persisted", store: "Hear", how: "lost", prepare: cell, act: heartbeat, want: "unavailable", again: "yes"},
	{name: "leave without a host failed", store: "Leave", how: "failed", prepare: cell, act: release, want: "unavailable", again: "released"},
	{name: "leave without a host persisted", store: "Leave", how: "lost", prepare: cell, act: release, want: "unavailable", again: "released"},

	{name: "heartbeat not found", store: "Get", nth: 1, how: "failed", prepare: admitted, act: heartbeat, want: "unavailable", again: "yes"},
	{name: "renew failed in the store", store: "Renew", how: "failed", prepare: admitted, act: heartbeat, want: "unavailable", again: "yes"},
	{name: "renew persisted", store: "Renew", how: "lost", prepare: admitted, act: heartbeat, want: "unavailable", again: "yes"},
	{name: "renew failed at the host", host: "Renew", how: "failed", prepare: admitted, act: heartbeat, want: "host_silent", again: "yes"},
	{name: "renew lost", host: "Renew", how: "lost", prepare: admitted, act: heartbeat, want: "host_silent", again: "yes"},
	{name: "renew late", host: "Renew", how: "late", prepare: admitted, act: heartbeat, want: "host_silent", again: "yes"},

	{name: "move failed", store: "Move", how: "failed", prepare: lapsed, act: attempt, want: "unavailable", again: "yes"},
	{name: "move persisted", store: "Move", how: "lost", prepare: lapsed, act: attempt, want: "unavailable", again: "unavailable"},
	{name: "vacate failed", host: "Release", how: "failed", prepare: draining, act: attempt, want: "host_silent", again: "yes"},
	{name: "vacate lost", host: "Release", how: "lost", prepare: draining, act: attempt, want: "host_silent", again: "yes"},
	{name: "vacate late", host: "Release", how: "late", prepare: draining, act: attempt, want: "host_silent", again: "yes"},

	{name: "leave failed", store: "Leave", how: "failed", prepare: admitted, act: release, want: "unavailable", again: "released"},
	{name: "leave persisted", store: "Leave", how: "lost", prepare: admitted, act: release, want: "unavailable", again: "released"},
	{name: "leave of a running one persisted", store: "Leave", how: "lost", prepare: running, act: release, want: "unavailable", again: "releasing"},
	{name: "release failed", host: "Release", how: "failed", prepare: admitted, act: release, want: "releasing", again: "released"},
	{name: "release lost", host: "Release", how: "lost", prepare: admitted, act: release, want: "releasing", again: "released"},
	{name: "release late", host: "Release", how: "late", prepare: admitted, act: release, want: "releasing", again: "released"},
	{name: "end failed", store: "End", how: "failed", prepare: admitted, act: release, want: "releasing", again: "released"},
	{name: "end persisted", store: "End", how: "lost", prepare: admitted, act: release, want: "releasing", again: "released"},
	{name: "row not read after the end", store: "ByID", how: "failed", prepare: admitted, act: release, want: "releasing", again: "released"},
	{name: "clock not read", store: "Now", nth: 2, how: "failed", prepare: admitted, act: release, want: "unavailable", again: "released"},
}

func (f fault) plan() []storetest.Fault {
	if f.store == "" {
		return nil
	}
	return []storetest.Fault{{Call: f.store, Nth: max(f.nth, 1), Persisted: f.how == "lost"}}
}

func (f fault) start(r *rig) (control.Outcome, error) {
	if f.prepare != nil {
		f.prepare(r)
	}
	if f.host != "" {
		how := f.how
		if f.store != "" {
			how = "lost"
		}
		for _, h := range r.hosts {
			h.fail(f.host, how)
			if f.host == "Reserve" {
				break // h1, which create prefers; the other one answers
			}
		}
	}
	return f.act(r)
}

func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Run("the caller comes again", func(t *testing.T) {
				bubble(t, twoHosts(4096), func(r *rig) { f.comesAgain(r) }, f.plan()...)
			})
			t.Run("the caller is gone", func(t *testing.T) {
				bubble(t, twoHosts(4096), func(r *rig) {
					out, err := f.start(r)
					r.want(f.want, out, err)
					r.letGo()
				}, f.plan()...)
			})
		})
	}
}

func (f fault) comesAgain(r *rig) {
	out, err := f.start(r)
	r.want(f.want, out, err)
	out, err = f.act(r)
	r.want(f.again, out, err)
	// Whoever goes on asking gets what it asked for, once.
	time.Sleep(21 * time.Second)
	out, err = f.act(r)
	if got := said(out, err).word; got == "unavailable" || got == "releasing" {
		r.t.Errorf("after two sweeps the caller is still told %q: %v", got, err)
	}
	if n := r.count("k"); n > 1 {
		r.t.Errorf("one key, and the hosts hold %d of it", n)
	}
	out, err = release(r)
	if got := said(out, err).word; got != "released" && got != "releasing" && got != "not_found" && got != "expired" {
		r.t.Errorf("released: %q %v", got, err)
	}
	r.letGo()
}

// count is how often the hosts hold an admission.
func (r *rig) count(key string) (n int) {
	row := r.row(key)
	for _, h := range r.hosts {
		h.mu.Lock()
		for epoch := range row.Gen + 1 {
			if reserved, running := h.h.Holds(row.ID, epoch); reserved || running {
				n++
			}
		}
		h.mu.Unlock()
	}
	return n
}

// letGo has every caller gone and every sandbox exit; whatever lapses by itself does.
func (r *rig) letGo() {
	r.t.Helper()
	for _, h := range r.hosts {
		for _, s := range h.view().Sandboxes {
			h.step(host.Done{ID: s.ID, Epoch: s.Epoch, Reason: "exit 0"})
		}
	}
	time.Sleep(3 * time.Minute)
	if _, ok := r.g.Fleet().Pool("cloud"); ok {
		time.Sleep(pool.DefaultSlotTTL)
	}
	r.wantHeld(0, 0, 0)
	for _, h := range r.hosts {
		if n := len(h.view().Sandboxes); n != 0 || h.view().Account.Reserved != 0 {
			r.t.Errorf("idle, and host %s has %s reserved", h.id, h.view().Account.Reserved)
		}
		if ends, _, _ := h.unwritten(); len(ends) > 0 {
			r.t.Errorf("host %s still tells %v", h.id, ends)
		}
	}
}

func (h *fakeHost) unwritten() ([]host.End, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.h.Unwritten(), true, nil
}

// TestLostNews loses, on the way from the host or on the way to the store, the word of a
// boot and of an end; reconciling makes up for it within its period (§12.8, T29, T37).
func TestLostNews(t *testing.T) {
	for name, plan := range map[string][]storetest.Fault{
		"track failed":    {{Call: "Track", Nth: 1}},
		"track persisted": {{Call: "Track", Nth: 1, Persisted: true}},
		"end failed":      {{Call: "End", Nth: 1}, {Call: "End", Nth: 2}, {Call: "End", Nth: 3}},
		"end persisted":   {{Call: "End", Nth: 1, Persisted: true}},
		"list failed":     {{Call: "List", Nth: 2}},
		"nothing said":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, oneHost(4096), func(r *rig) {
				h := r.hosts[0]
				h.set(func() { h.mute = name == "nothing said" })
				a := r.admit("k", "small")
				r.boot(a)
				time.Sleep(21 * time.Second)
				if row := r.row("k"); row.State != "running" {
					t.Errorf("booted, and the store says %s", row.State)
				}
				h.step(host.Done{ID: a.ID, Epoch: a.Epoch, Reason: "exit 0"})
				time.Sleep(21 * time.Second)
				if row := r.row("k"); row.State != "released" {
					t.Errorf("ended, and the store says %s", row.State)
				}
				r.letGo()
			}, plan...)
		})
	}
}

// TestAcknowledgedWhenWritten: a host goes on telling an end until the store has it.
func TestAcknowledgedWhenWritten(t *testing.T) {
	plan := []storetest.Fault{}
	for n := range 8 {
		plan = append(plan, storetest.Fault{Call: "End", Nth: n + 1})
	}
	bubble(t, oneHost(4096), func(r *rig) {
		h := r.hosts[0]
		a := r.admit("k", "small")
		r.boot(a)
		h.step(host.Done{ID: a.ID, Epoch: a.Epoch, Reason: "exit 0"})
		time.Sleep(time.Second)
		if ends, _, _ := h.unwritten(); len(ends) != 1 || h.calls("Acked") != 0 {
			t.Errorf("not written, and acknowledged %d times: %v", h.calls("Acked"), ends)
		}
		time.Sleep(10 * time.Second)
		if ends, _, _ := h.unwritten(); len(ends) != 0 || h.calls("Acked") != 1 {
			t.Errorf("written, and acknowledged %d times: %v", h.calls("Acked"), ends)
		}
	}, plan...)
}

// TestTidying: what tidies up fails once, or is lost, and the next round makes up for it.
func TestTidying(t *testing.T) {
	for _, call := range []string{"Sweep", "Attend", "Config", "Lines"} {
		for _, persisted := range []bool{false, true} {
			bubble(t, oneHost(4096), func(r *rig) {
				r.admit("k1", "solo")
				r.wait("k2", "solo", "slot", patience(9*time.Second))
				ctx, hangUp := context.WithCancel(r.t.Context())
				r.poll(ctx, "k2", 30*time.Second)
				time.Sleep(time.Second)
				hangUp()
				time.Sleep(6 * time.Second)
				if now := pool.Time(time.Now().UnixMilli()); r.row("k2").PresentUntil > now {
					t.Errorf("%s: still present", call)
				}
				if _, err := r.metrics.Gather(); err != nil {
					t.Errorf("%s: %v", call, err)
				}
				time.Sleep(20 * time.Second)
				if state := r.row("k2").State; state != pool.TimedOut {
					t.Errorf("%s: %s", call, state)
				}
				if r.g.Fleet() == nil {
					t.Errorf("%s: no configuration", call)
				}
				r.release("k1")
				r.wantHeld(0, 0, 0)
			}, storetest.Fault{Call: call, Nth: max(1, map[string]int{"Config": 2}[call]), Persisted: persisted})
		}
	}
}

// hung is a store that does not answer a ping: its server fell silent.
type hung struct{ control.Store }

func (hung) Ping(ctx context.Context) error {
	<-ctx.Done()
	return errors.New("no answer from db.internal")
}

// TestReadyWithoutAStore: a load balancer is answered soon, whatever the store does, and is
// told nothing of where that is.
func TestReadyWithoutAStore(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.must(r.g.Ready(r.t.Context()))
		good := r.g.Store
		r.g.Store = hung{good}
		began := time.Now()
		err := r.g.Ready(r.t.Context())
		if !errors.Is(err, api.Unavailable) || strings.Contains(err.Error(), "db.internal") || time.Since(began) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		r.g.Store = good
		r.must(r.g.Ready(r.t.Context()))
	})
}
