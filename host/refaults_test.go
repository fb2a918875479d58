package host_test

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// What sandboxes read again is added up as a counter has to be, whatever ends or counts anew, and
// moves nothing else.
func TestRefaultsOnlyAddUp(t *testing.T) {
	h := host.New(host.DefaultConfig("h", 1000), 1)
	now := host.Instant(time.Second)
	step := func(ev host.Event) {
		t.Helper()
		now += host.Instant(time.Second)
		if fx := h.Step(now, ev); fx.Answer.Denial != "" {
			t.Fatalf("%T: %+v", ev, fx.Answer)
		}
	}
	sample := func(refaults, machine int64) host.Sample {
		return host.Sample{
			Full: true, Limits: []gate.Limit{{Name: "machine", Size: 16 * gate.GiB}},
			Sandboxes: []host.Resident{{ID: "a", Bytes: gate.MiB, Refaults: refaults, CPU: -1}},
			Refaults:  host.Counter{N: machine, Known: true},
		}
	}
	step(sample(0, 1))
	step(host.Reserve{ID: "a", Gen: 1, Ask: gate.Ask{Class: "c", Memory: gate.GiB}, Until: now + host.Instant(time.Minute), Incarnation: 1})
	step(host.Redeem{ID: "a", Epoch: 1})
	step(host.Track{ID: "a", Epoch: 1, Process: host.Process{Pid: 7}})
	step(sample(5, 10))
	admittable := h.Admittable()
	for _, c := range []struct{ seen, want int64 }{{5, 5}, {8, 8}, {2, 8}, {4, 10}} {
		step(sample(c.seen, 10*c.seen))
		v := h.View()
		if v.Refaults != c.want || v.AllRefaults != (host.Counter{N: 10 * c.seen, Known: true}) {
			t.Errorf("seen %d: %d, %+v", c.seen, v.Refaults, v.AllRefaults)
		}
		if err := h.CheckInvariants(); err != nil {
			t.Error(err)
		}
	}
	if h.Admittable() != admittable {
		t.Errorf("they moved what is admittable from %v to %v", admittable, h.Admittable())
	}
}
