package table

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// An operator's order stands above the host's own word, before it was told and after.
func TestOrderStandsAboveTheHostsWord(t *testing.T) {
	tb := New(Options{})
	ask := &gate.Ask{Memory: gate.GiB}
	fits := func() bool {
		_, ok := tb.Pick(0, ask, &PickOptions{})
		if err := tb.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if tb.Order("a", IsCordoned) {
		t.Error("an order for nobody")
	}
	tb.Register(Registration{Host: "a"})
	tb.Order("a", IsCordoned) // before it was heard
	word := func(sequence int64, intake Intake) *Verdict {
		return &Verdict{Host: "a", Incarnation: 1, Sequence: sequence, Admittable: 4 * gate.GiB, Free: 4 * gate.GiB, Limit: 8 * gate.GiB, MaxAsk: 8 * gate.GiB, Intake: intake}
	}
	tb.Observe(word(1, Open), 0)
	if fits() {
		t.Error("it was not told yet, and gets something")
	}
	tb.Order("a", Open)
	if !fits() {
		t.Error("the order was taken back")
	}
	tb.Observe(word(2, IsDraining), 0)
	tb.Order("a", IsCordoned)
	if fits() || tb.counts[Draining] != 1 {
		t.Errorf("the stricter of both words holds: %v", tb.counts)
	}
	tb.Order("a", Open)
	tb.Observe(word(3, UnderPressure), 0)
	if fits() || tb.counts[Pressure] != 1 {
		t.Errorf("an open order opens no valve: %v", tb.counts)
	}
}

// Who cannot be asked is no candidate at once, and is one again with its next word, though that
// be the same as before.
func TestMute(t *testing.T) {
	tb := New(Options{})
	ask := &gate.Ask{Memory: gate.GiB}
	v := &Verdict{Host: "a", Incarnation: 1, Sequence: 7, Admittable: 4 * gate.GiB, Free: 4 * gate.GiB, Limit: 8 * gate.GiB, MaxAsk: 8 * gate.GiB}
	tb.Mute("a") // nobody
	tb.Register(Registration{Host: "a"})
	tb.Mute("a") // not heard
	tb.Observe(v, 0)
	tb.Mute("a")
	tb.Mute("a")
	if _, ok := tb.Pick(time.Second, ask, &PickOptions{}); ok || tb.counts[Silent] != 1 {
		t.Errorf("a mute host is offered: %v", tb.counts)
	}
	if taken, _ := tb.Observe(&Verdict{Host: "a", Incarnation: 1, Sequence: 6, Limit: gate.GiB}, time.Second); taken {
		t.Error("an older word was taken")
	}
	if taken, err := tb.Observe(v, time.Second); !taken || err != nil {
		t.Error(taken, err)
	}
	if _, ok := tb.Pick(time.Second, ask, &PickOptions{}); !ok {
		t.Error("its word was not taken")
	}
	if taken, _ := tb.Observe(v, 2*time.Second); taken {
		t.Error("the same word twice")
	}
	if err := tb.CheckInvariants(); err != nil {
		t.Error(err)
	}
}
