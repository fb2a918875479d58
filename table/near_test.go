package table

import (
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

// TestNear: what a refusal was nearest to, in figures: the host with the most room first, what
// the ask needs in that host's mode, and what each dimension has left.
func TestNear(t *testing.T) {
	large, small, whole := plain("large", 812*gate.MiB), plain("small", 100*gate.MiB), plain("whole", 900*gate.MiB)
	whole.Mode = gate.Committed
	large.Dims, large.Limits = []gate.Dim{{Name: "gpus", N: 1}}, []gate.Dim{{Name: "gpus", N: 2}}
	shut := plain("shut", 8*gate.GiB)
	shut.Intake = IsDraining
	cordoned, full := plain("cordoned", 0), plain("full", 0)
	cordoned.Intake, cordoned.Free, cordoned.Dims, cordoned.Limits = IsCordoned, 2*gate.GiB, []gate.Dim{{Name: "gpus", N: 2}}, []gate.Dim{{Name: "gpus", N: 2}}
	full.Intake, full.Free = IsCordoned, gate.GiB/2
	tb := with(t, Options{}, small, large, whole, shut, cordoned, full)
	ask := stateless(4 * gate.GiB)
	ask.Dims = []gate.Dim{{Name: "gpus", N: 2}}
	near := tb.Near(0, &ask, &PickOptions{}, 2)
	if len(near) != 3 || near[0].Host != "large" || near[1].Host != "small" { // both lack the dimension, too
		t.Fatalf("%+v", near)
	}
	if r := near[2]; r.Host != "cordoned" || r.Why != Cordoned || r.Admittable != 2*gate.GiB {
		t.Errorf("%+v", r)
	}
	if near := tb.Near(0, &ask, &PickOptions{}, 9); len(near) != 4 || near[2].Host != "whole" || near[2].Need != 4*gate.GiB || near[2].Admittable != 900*gate.MiB || near[2].Why != NoRoom {
		t.Errorf("%+v", near)
	}
	if r := near[0]; r.Need != gate.GiB || r.Admittable != 812*gate.MiB || r.Why != NoRoom || len(r.Dims) != 1 || r.Dims[0] != (DimRoom{"gpus", 1, 2}) {
		t.Errorf("%+v", r)
	}
	ask = stateless(gate.GiB)
	ask.Dims = []gate.Dim{{Name: "gpus", N: 2}}
	if r := tb.Near(0, &ask, &PickOptions{Require: "large"}, 9)[0]; r.Why != Dimension || r.What != "gpus" {
		t.Errorf("%+v", r)
	}
	if r := tb.Near(0, &ask, &PickOptions{Require: "shut"}, 9)[0]; r.Why != Draining {
		t.Errorf("%+v", r)
	}
	if near := tb.Near(0, &ask, &PickOptions{Require: "nobody"}, 9); near != nil {
		t.Errorf("%+v", near)
	}
	c, _ := tb.Lookup("small")
	tb.Charge(c, &gate.Ask{Memory: 60 * gate.MiB, Stateful: true}, 0)
	if r := tb.Near(0, &ask, &PickOptions{Require: "small"}, 1)[0]; r.Admittable != 40*gate.MiB {
		t.Errorf("what is asked of it already counts: %+v", r)
	}
	if r := tb.Near(0, &ask, &PickOptions{Require: "small", Gross: true}, 1)[0]; r.Admittable != 100*gate.MiB {
		t.Errorf("gross it does not: %+v", r)
	}
}
