package table

import (
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

// A reserve that was lost on the way keeps its charge until it counts as unanswered. The
// last pick before a refusal asks the host all the same: its own word decides.
func TestGrossPickSeesThroughUnansweredReserves(t *testing.T) {
	tb := New(Options{})
	v := Verdict{Host: "h1", Incarnation: 1, Sequence: 1, Admittable: gate.GiB, Free: gate.GiB, Limit: 4 * gate.GiB, MaxAsk: 3 * gate.GiB}
	if ok, err := tb.Observe(&v, 0); !ok {
		t.Fatal(err)
	}
	ask := gate.Ask{Memory: gate.GiB, Stateful: true}
	c, ok := tb.Pick(0, &ask, &PickOptions{})
	if !ok {
		t.Fatal("the host has room")
	}
	tb.Charge(c.Ref, &ask, 0)
	if _, ok := tb.Pick(0, &ask, &PickOptions{}); ok {
		t.Error("two picks for the room of one")
	}
	if c, ok := tb.Pick(0, &ask, &PickOptions{Gross: true}); !ok || c.Host != "h1" {
		t.Errorf("gross: %v, %v", c, ok)
	}
	if _, ok := tb.Pick(0, &ask, &PickOptions{Gross: true, Exclude: []string{"h1"}}); ok {
		t.Error("gross, and excluded all the same")
	}
}
