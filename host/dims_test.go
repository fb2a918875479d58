package host_test

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// dimsRig is a host whose measured dimensions a restart does not know before the first sample.
type dimsRig struct {
	t   *testing.T
	h   *host.Host
	now host.Instant
}

func (r *dimsRig) step(ev host.Event) host.Effects {
	r.t.Helper()
	fx := r.h.Step(r.now, ev)
	if err := r.h.CheckInvariants(); err != nil {
		r.t.Fatalf("after %#v: %v", ev, err)
	}
	return fx
}

// T27: of a dimension that can be measured no more is promised than nobody has: what others took
// of the pool is gone, whatever was declared; and what a sandbox holds beyond its ask counts as
// it is. What was promised and is not held yet is not given away twice.
func TestMeasuredDimensions(t *testing.T) {
	cfg := config()
	cfg.Dims = []gate.Dim{{Name: "gpus", N: 2}, {Name: "hugepages", N: 1000}}
	r := dimsRig{t: t, h: host.New(cfg, incarnation)}
	left := func() int64 { return r.h.Verdict().Dims[1].N }
	pages := func(n int64) gate.Ask {
		a := ask(64)
		a.Dims = []gate.Dim{{Name: "hugepages", N: n}}
		return a
	}
	sample := func(free int64, held map[string]int64) {
		ev := machine(8192, 1000)
		ev.Full = true
		if free >= 0 {
			ev.Dims = []gate.Dim{{Name: "hugepages", N: free}}
		}
		for id, n := range held {
			ev.Sandboxes = append(ev.Sandboxes, host.Resident{ID: id, Bytes: gate.MiB, Dims: []gate.Dim{{Name: "hugepages", N: n}}})
		}
		r.now += time.Second
		r.step(ev)
	}
	want := func(what string, n int64) {
		t.Helper()
		if got := left(); got != n {
			t.Errorf("%s: %d left, want %d", what, got, n)
		}
	}
	sample(-1, nil)
	want("nothing measured", 1000)
	sample(600, nil)
	want("others have 400", 600)
	reserve := func(id string, n int64) host.Answer {
		return r.step(host.Reserve{ID: id, Gen: 1, Ask: pages(n), Until: r.now + time.Minute, Incarnation: incarnation}).Answer
	}
	reserve("a", 200)
	want("promised", 400)
	r.step(host.Redeem{ID: "a", Epoch: 1})
	r.step(host.Track{ID: "a", Epoch: 1, Process: host.Process{Pid: 1}})
	want("booted, and none held yet", 400)
	sample(450, map[string]int64{"a": 150})
	want("50 are still to be held", 400)
	sample(300, map[string]int64{"a": 300})
	want("it holds more than it asked for", 300)
	if a := reserve("b", 301); a.Denial != host.LacksDim || a.Detail != "hugepages" {
		t.Errorf("%q %q", a.Denial, a.Detail)
	}
	if a := reserve("c", 300); a.Denial != "" {
		t.Errorf("%q %q", a.Denial, a.Detail)
	}
	r.step(host.Release{ID: "c", Gen: 1})
	r.step(host.Done{ID: "a", Epoch: 1})
	sample(5000, nil)
	want("never above what was declared", 1000)
	r.step(host.Sample{Limits: machine(8192, 1000).Limits, Full: true, Dims: []gate.Dim{{Name: "hugepages", N: -1}}})
	if r.h.Admittable() != 0 {
		t.Error("a pool of less than nothing was taken for a measurement")
	}
}
