package control_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// disagreement is one that is made by hand: the store, a host or the clock is changed behind
// everybody's back.
type disagreement struct {
	what string
	make func(r *rig)
	left bool // only a person may mend it
}

func (r *rig) writes(write func(ctx context.Context, s control.Store) error) {
	r.t.Helper()
	r.must(write(r.t.Context(), r.memory))
}

// over ends k in the store alone.
func (r *rig) over(to pool.State) {
	row := r.row("k")
	r.writes(func(ctx context.Context, s control.Store) error {
		_, _, err := s.End(ctx, row.ID, row.Epoch, to, "by hand")
		return err
	})
}

// leaves begins a release in the store alone.
func (r *rig) leaves() {
	r.writes(func(ctx context.Context, s control.Store) error {
		_, _, err := s.Leave(ctx, r.row("k").ID, pool.Passage{})
		return err
	})
}

// strange has a host hold what nobody admitted.
func (r *rig) strange(boot bool) {
	h := r.hosts[0]
	ask := gate.Ask{Class: "small", Memory: 64 * gate.MiB, Rule: gate.DefaultReserveRule()}
	h.step(host.Reserve{ID: "stranger", Gen: 1, Ask: ask, Until: time.Since(h.started) + time.Minute, Incarnation: 1000})
	if boot {
		h.step(host.Redeem{ID: "stranger", Epoch: 1})
		h.step(host.Track{ID: "stranger", Epoch: 1, Process: host.Process{Pid: 1}})
	}
}

// stray has a sandbox of k run on, of which nobody's ledger knows any more.
func (r *rig) stray(class string) {
	h := r.hosts[0]
	r.boot(r.admit("k", class))
	synctest.Wait()
	row := r.row("k")
	r.exit("k")
	synctest.Wait()
	h.set(func() { h.strays = []host.Stray{{ID: row.ID, Where: "/plimsoll/sb-" + row.ID, PIDs: []int{42}}} })
}

var disagreements = map[string]disagreement{
	"a slot whose reservation is gone":    {what: "unheld", make: lapsed},
	"a slot without its sandbox":          {what: "end_unseen", make: func(r *rig) { running(r); r.hosts[0].restart(2000) }},
	"a release of what is gone":           {what: "end_unseen", make: func(r *rig) { lapsed(r); r.leaves() }},
	"a release that its host never heard": {what: "unreleased", make: func(r *rig) { admitted(r); r.leaves() }},
	"a boot that was never written":       {what: "boot_unseen", make: func(r *rig) { r.hosts[0].set(func() { r.hosts[0].mute = true }); running(r) }},
	"an end that keeps its place, unseen": {what: "reopen_unseen", make: func(r *rig) {
		r.boot(r.admit("k", "keeper"))
		synctest.Wait()
		row, h := r.row("k"), r.hosts[0]
		h.set(func() { h.mute = true })
		h.step(host.Done{ID: row.ID, Epoch: row.Epoch, Reason: "exit 0"})
	}},
	"lost in the store, and alive":          {what: "lost_alive", make: func(r *rig) { running(r); r.over(pool.Lost) }},
	"a sandbox whose slot was given back":   {what: "superseded", make: func(r *rig) { running(r); r.over(pool.Released) }},
	"a reservation whose slot was given up": {what: "superseded", make: func(r *rig) { admitted(r); r.over(pool.Expired) }},
	"a reservation of nobody's":             {what: "unknown", make: func(r *rig) { r.strange(false) }},
	"a sandbox of nobody's":                 {what: "unknown", make: func(r *rig) { r.strange(true) }},
	"a sandbox in no ledger's name":         {what: control.OutOfGate, make: func(r *rig) { r.stray("small") }},
	"a stateful one in no ledger's name":    {what: control.OutOfGate, left: true, make: func(r *rig) { r.stray("base") }},
	"an end that nobody wrote": {what: control.EndUntold, make: func(r *rig) {
		running(r)
		row, h := r.row("k"), r.hosts[0]
		h.set(func() { h.mute = true })
		h.step(host.Done{ID: row.ID, Epoch: row.Epoch, Reason: "exit 0"})
	}},
	"a placing whose replica was lost": {what: string(pool.LostPlacing), make: func(r *rig) {
		r.writes(func(ctx context.Context, s control.Store) error {
			_, err := s.Claim(ctx, pool.Claim{ID: "a", Consumer: "alice", Key: "k", Pool: "one", Mode: pool.Refuse})
			return err
		})
		time.Sleep(10 * time.Second)
	}},
	"a waiter out of patience": {what: string(pool.OutOfPatience), make: func(r *rig) {
		r.admit("other", "solo")
		r.wait("k", "solo", "slot", patience(2*time.Second))
		time.Sleep(2 * time.Second)
	}},
	"a slot without a host that nobody keeps": {what: string(pool.Overdue), make: func(r *rig) {
		cell(r)
		time.Sleep(pool.DefaultSlotTTL)
	}},
	"a stateful sandbox that was superseded": {what: string(admission.Stranded), left: true, make: func(r *rig) {
		r.boot(r.admit("k", "base"))
		synctest.Wait()
		r.over(pool.Released)
	}},
}

// Each disagreement is found, shown, mended, and a second run finds nothing (T32, T35, T37).
func TestReconcile(t *testing.T) {
	for name, d := range disagreements {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			bubble(t, oneHost(4096), func(r *rig) {
				time.Sleep(time.Second) // between two rounds of those that do it by themselves
				r.finds("", api.ReconcileRequest{})
				d.make(r)
				synctest.Wait()
				before := r.held()
				r.finds(d.what, api.ReconcileRequest{DryRun: true})
				if r.held() != before {
					t.Errorf("a dry run changed %s to %s", before, r.held())
				}
				mended := r.finds(d.what, api.ReconcileRequest{StopUnknown: true})
				time.Sleep(time.Millisecond)
				if d.left {
					r.finds(d.what, api.ReconcileRequest{StopUnknown: true})
					return
				}
				if !mended {
					t.Error("not mended")
				}
				r.finds("", api.ReconcileRequest{StopUnknown: true})
			})
		})
	}
}

// finds runs a reconciliation that must find just this.
func (r *rig) finds(what string, o api.ReconcileRequest) (mended bool) {
	r.t.Helper()
	got, err := r.g.Reconcile(r.t.Context(), root, o)
	r.must(err)
	found := got.Findings
	switch {
	case what == "" && len(found) == 0:
	case len(found) != 1 || found[0].What != what:
		r.t.Errorf("found %+v, want %q", found, what)
	default:
		mended = found[0].Mended
	}
	return mended
}

// Without being told so, nothing stops what the store does not know: it may have lost it.
func TestUnknownSandboxesAreLeftAlone(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.strange(true)
		time.Sleep(time.Minute)
		if r.finds("unknown", api.ReconcileRequest{}) {
			t.Error("stopped")
		}
		r.wantHeld(0, 0, 1)
		if !strings.Contains(r.log.String(), "plimsoll reconcile") {
			t.Error("nobody was told")
		}
		r.finds("unknown", api.ReconcileRequest{StopUnknown: true})
		time.Sleep(time.Millisecond)
		r.wantHeld(0, 0, 0)
	})
}

// T111 and the dead that return: a host that lost its slots to silence, and was alive, has
// them again; a slot that moved on leaves a sandbox that is stopped.
func TestBackFromTheDead(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		r.boot(r.admit("k", "small", pinned("h1", "prefer")))
		synctest.Wait()
		r.over(pool.Lost)
		time.Sleep(foundWithin)
		if row := r.row("k"); row.State != pool.Running || row.Host != "h1" {
			t.Errorf("it never died, and is %s on %q", row.State, row.Host)
		}
		r.over(pool.Lost)
		r.boot(r.admit("k", "small", pinned("h2", "prefer")))
		time.Sleep(foundWithin)
		if n := len(r.host("h1").view().Sandboxes); n != 0 {
			t.Error("superseded, and it runs on")
		}
		r.wantHeld(1, 0, 1)
		r.letGo()
	})
}

// A place that was kept for a restart, unseen behind a silence, is let go when its host is
// back: nothing may boot there any more.
func TestPlaceKeptBehindSilence(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		r.boot(r.admit("k", "keeper", pinned("h1", "prefer")))
		synctest.Wait()
		row, h := r.row("k"), r.host("h1")
		r.over(pool.Lost)
		h.step(host.Done{ID: row.ID, Epoch: row.Epoch, Reason: "exit 0"})
		if n := h.view().Reopened; n != 1 {
			t.Fatal("its place is not kept")
		}
		r.boot(r.admit("k", "keeper", pinned("h2", "prefer")))
		time.Sleep(foundWithin)
		if n := h.view().Reopened; n != 0 {
			t.Error("superseded, and its place is kept")
		}
		r.letGo()
	})
}

// What a lost state file leaves running keeps its slot for as long as it runs, stateful or not,
// whatever the replicas compare and reconcile; its caller can end it, and its end frees the slot.
func TestALostLedgerFreesNoSlot(t *testing.T) {
	for _, class := range []string{"base", "small"} {
		bubble(t, oneHost(4096), func(r *rig) {
			h := r.hosts[0]
			r.boot(r.admit("k", class))
			synctest.Wait()
			row := r.row("k")
			lost := host.Stray{ID: row.ID, Where: "/plimsoll/sb-" + row.ID, PIDs: []int{42}, Lost: true, Resident: 64 * gate.MiB}
			h.set(func() { h.lost = []host.Stray{lost} })
			h.restart(2000)
			for range 10 {
				time.Sleep(time.Minute)
				if now := r.row("k"); now.State != pool.Running || now.Epoch != row.Epoch {
					t.Fatalf("%s: its sandbox runs, and its slot is %s/%d", class, now.State, now.Epoch)
				}
			}
			r.finds(control.OutOfGate, api.ReconcileRequest{})
			if shown, err := r.g.Host(r.t.Context(), "h1"); err != nil || shown.OutOfGateCount != 1 || shown.OutOfGateMB != 64 ||
				shown.Sandboxes[len(shown.Sandboxes)-1].State != api.SandboxStateUnticketed {
				t.Errorf("shown %+v, %v", shown, err)
			}
			h.set(func() { h.lost = nil })
			h.step(host.OutOfGate{})
			time.Sleep(time.Minute)
			if now := r.row("k"); !now.State.Ended() {
				t.Errorf("%s: it is gone, and its slot is %s", class, now.State)
			}
		})
	}
}
