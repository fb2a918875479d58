package host_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// fill asks for 31 sandboxes of 4 GiB on a machine of 32 and boots what is promised; each holds
// 200 MiB, and a minute passes.
func fill(t *testing.T, mode gate.Mode) *rig {
	cfg := config()
	cfg.Mode, cfg.MaxStarts = mode, 100
	r := newRig(t, cfg)
	r.now = 72 * time.Hour // of the machine's: nothing that this agent saw
	r.step(machine(32<<10, 0))
	var here []host.Resident
	for i := range 31 {
		id := fmt.Sprint("s", i)
		if r.reserve(id, 1, ask(4<<10)).Denial != "" {
			continue
		}
		r.reserve(id, 1, ask(4<<10)) // again, which is the same one
		r.redeem(id, 1)
		r.track(id, 1)
		here = append(here, host.Resident{ID: id, Bytes: 200 * gate.MiB})
	}
	for range 61 {
		r.step(machine(32<<10, 200*int64(len(here)), here...))
		r.now += time.Second
	}
	r.step(host.Tick{})
	return r
}

// A host of either mode says what the other one would do with the same asks. Committed holds 7 of
// 4 GiB and has no room for the 8th, for which the other mode has some; the working set holds 30,
// of which the other mode takes the first 7; the 31st neither.
func TestTheOtherModeIsCounted(t *testing.T) {
	want := host.Tally{
		For: 61 * time.Second, Admitted: 7, Refused: []host.Refused{{Denial: host.NoRoom, N: 24}}, WouldAdmit: 24, Weighed: time.Minute,
		Mean: host.Load{
			SandboxesMilli: 7000, Promised: gate.FromMiB(7 * 4096), Resident: gate.FromMiB(7 * 200), Committed: gate.FromMiB(7 * 4096),
			Admittable: gate.FromMiB(32768 - 1639 - 7*4096), WouldOffer: gate.FromMiB(32768 - 1639 - 7*1024),
		},
	}
	if diff := cmp.Diff(want, fill(t, gate.Committed).h.View().Tally); diff != "" {
		t.Error("committed:", diff)
	}
	want = host.Tally{
		For: 61 * time.Second, Admitted: 30, Refused: []host.Refused{{Denial: host.NoRoom, N: 1}}, WouldRefuse: 23, Weighed: time.Minute,
		Mean: host.Load{
			SandboxesMilli: 30_000, Promised: gate.FromMiB(30 * 1024), Resident: gate.FromMiB(30 * 200), Committed: gate.FromMiB(30 * 4096),
			Admittable: gate.FromMiB(32768 - 1639 - 30*1024),
		},
	}
	if diff := cmp.Diff(want, fill(t, gate.WorkingSet).h.View().Tally); diff != "" {
		t.Error("working-set:", diff)
	}
}

// What a lost bet costs is counted, and for how long the valve is shut; a restarted agent begins anew.
func TestLossesAreCounted(t *testing.T) {
	r := fill(t, gate.WorkingSet)
	r.cfg.Reclaim = host.ReclaimOn
	r.h = r.restore()
	if got := r.h.View().Tally; got.Admitted != 0 || got.For != 0 {
		t.Fatalf("an agent that has just started: %+v", got)
	}
	r.now += time.Second
	r.step(machine(32<<10, 32<<10, host.Resident{ID: "s0", Bytes: 2 * gate.GiB}))
	r.step(host.Done{ID: "s0", Epoch: 1, By: host.Killed})
	r.now += 5 * time.Second
	r.step(host.Done{ID: "s1", Epoch: 1, OutOfMemory: true})
	if got := r.h.View().Tally; got.Shut != 5*time.Second || got.Evicted != 1 || got.Killed != 1 || got.WouldEvict != 0 || r.h.Verdict().WouldOffer != 0 {
		t.Errorf("%+v", got)
	}
	r.step(host.SetEnforcement{To: host.Shadow})
	r.now += 5 * time.Second
	r.step(machine(32<<10, 32<<10, host.Resident{ID: "s2", Bytes: 2 * gate.GiB}))
	if got := r.h.View().Tally; got.WouldEvict == 0 || got.Evicted != 1 {
		t.Errorf("in shadow: %+v", got)
	}
}

// Of what a restarted agent takes up the other mode's sums are right again.
func TestTheOtherModeSurvivesARestart(t *testing.T) {
	cfg := config()
	cfg.Mode = gate.Committed
	r := newRig(t, cfg)
	r.step(machine(32<<10, 0))
	r.reserve("a", 1, ask(4<<10))
	r.reserve("b", 1, ask(4<<10))
	r.redeem("b", 1)
	r.h = r.restore()
	r.now += time.Second
	r.step(machine(32<<10, 0))
	if got, want := r.h.Verdict().WouldOffer, gate.FromMiB(32768-1639-2*1024); got != want {
		t.Errorf("in the other mode it could take %s, not %s", got, want)
	}
}
