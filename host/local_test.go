package host_test

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// What a host admits by itself counts as memory like any other, and is told to nobody: no
// replica could write its end, so it would be told for ever.
func TestLocalCountsAndIsNotTold(t *testing.T) {
	cfg := host.DefaultConfig("h", 2)
	h := host.New(cfg, 0)
	now := host.Instant(0)
	step := func(ev host.Event) host.Effects {
		now += time.Millisecond
		fx := h.Step(now, ev)
		if err := h.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
		if len(fx.Ends)+len(fx.Reopens) > 0 {
			t.Errorf("told %+v %+v after %+v", fx.Ends, fx.Reopens, ev)
		}
		return fx
	}
	step(host.Sample{Limits: []gate.Limit{{Name: "budget", Size: 4 * gate.GiB}}, Full: true})
	whole := h.Admittable()
	ask := gate.Ask{Memory: gate.GiB, Stateful: true, HoldOnExit: true, Rule: gate.DefaultReserveRule()}
	for i, id := range []string{host.LocalPrefix + "lapses", host.LocalPrefix + "runs"} {
		if a := step(host.Reserve{ID: id, Gen: 1, Ask: ask, Until: time.Hour}).Answer; a.Denial != "" {
			t.Fatal(a)
		}
		if got, want := h.Admittable(), whole-gate.GiB.Scale(int64(i)+1, 1); got != want {
			t.Errorf("admittable %s, want %s", got, want)
		}
	}
	id := host.LocalPrefix + "runs"
	step(host.Redeem{ID: id, Epoch: 1})
	step(host.Track{ID: id, Epoch: 1, Process: host.Process{Pid: 1}})
	step(host.Done{ID: id, Epoch: 1}) // its place is kept, for hold_on_exit
	if reserved, _ := h.Holds(id, 1); !reserved {
		t.Error("its place was not kept")
	}
	now += cfg.BootWithin
	step(host.Tick{})
	if held := h.Held(); len(held.Reserved)+len(held.Sandboxes)+len(held.Ends) != 0 || h.Admittable() != whole {
		t.Errorf("left: %+v, admittable %s of %s", held, h.Admittable(), whole)
	}
	if host.Local("local-1") || host.Local("h") || !host.Local(id) {
		t.Error("an id of another form is taken for local")
	}
}
