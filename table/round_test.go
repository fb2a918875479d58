package table

import (
	"fmt"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

// The index counts whole MiB: room is rounded down and need up, so that what it offers fits to
// the byte, and what it withholds is less than the last MiB.
func TestRoundingNeverOverAdmits(t *testing.T) {
	q := query{rand: 11}
	for range 20_000 {
		admittable, memory := gate.Bytes(q.below(8<<20)), gate.Bytes(q.below(8<<20))
		tb := New(Options{Buckets: 16})
		v := plain("a", admittable)
		tb.Observe(&v, 0)
		a := stateful(memory)
		_, ok := tb.Pick(0, &a, &PickOptions{})
		if ok && admittable < memory {
			t.Fatalf("%d bytes are offered for %d", admittable, memory)
		}
		if !ok && admittable >= gate.Need(a, gate.WorkingSet)+gate.MiB {
			t.Fatalf("%d bytes are withheld from %d", admittable, memory)
		}
	}
}

// T27: hosts with memory and with nothing left of a dimension, or without a slot, are in nobody's
// way: they are not even looked at, however many there are and however good their score.
func TestHostsWithoutADimensionAreNotInTheWay(t *testing.T) {
	tb := New(Options{Buckets: 128})
	for i := range 2000 {
		v := plain(fmt.Sprint("h", i), 20*gate.GiB)
		switch i % 3 {
		case 0:
			v.Dims = []gate.Dim{{Name: "gpus"}}
		case 1:
			v.Dims = []gate.Dim{{Name: gate.SandboxDim}, {Name: "gpus", N: 4}}
		}
		tb.Observe(&v, 0)
	}
	last := plain("last", 2*gate.GiB)
	last.Dims = []gate.Dim{{Name: gate.SandboxDim, N: 2}, {Name: "gpus", N: 2}}
	tb.Observe(&last, 0)
	a := stateless(gate.GiB)
	a.Dims = []gate.Dim{{Name: "gpus", N: 1}}
	for range 2 {
		c, ok := tb.Pick(0, &a, &PickOptions{})
		if !ok || c.Host != "last" {
			t.Fatalf("picked %q, %v", c.Host, ok)
		}
		tb.Charge(c.Ref, &a, 0)
		if err := tb.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := tb.Pick(0, &a, &PickOptions{}); ok {
		t.Error("a third of two")
	}
	for k, g := range tb.groups { // what a pick would look at
		q := query{ask: &a, opts: &PickOptions{}}
		if tb.prepare(&q); !q.kinds.has(int32(k)) {
			continue
		}
		for b, heap := range g.heaps {
			for _, e := range heap {
				if e.room >= 256 {
					t.Errorf("%s is looked at, in bucket %d", tb.hosts[e.ref].id, b)
				}
			}
		}
	}
}
