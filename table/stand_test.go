package table

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// The host where a waiter's memory is set aside: the roomiest of those that could ever hold
// it, where nobody else waits so; and it stays the same one while that can be asked.
func TestPickStand(t *testing.T) {
	zone := []gate.Label{{Name: "zone", Value: "a"}}
	words := map[string]Verdict{}
	for id, room := range map[string]gate.Bytes{"full": 0, "some": 2 * gate.GiB, "taken": 8 * gate.GiB, "small": 4 * gate.GiB, "shut": 9 * gate.GiB, "labelled": gate.GiB} {
		words[id] = plain(id, room)
	}
	set := func(id string, change func(*Verdict)) {
		v := words[id]
		v.Sequence++
		change(&v)
		words[id] = v
	}
	set("taken", func(v *Verdict) { v.Standing = true })
	set("small", func(v *Verdict) { v.MaxAsk = 16 * gate.GiB })
	set("shut", func(v *Verdict) { v.Intake = UnderPressure })
	set("labelled", func(v *Verdict) {
		v.Labels, v.Dims, v.Limits = zone, []gate.Dim{{Name: "gpu"}}, []gate.Dim{{Name: "gpu", N: 2}}
	})
	tb := New(Options{Buckets: 64})
	for _, v := range words {
		tb.Observe(&v, 0)
	}
	large := stateful(20 * gate.GiB)
	labelled, two, three, giant := large, large, large, stateful(31*gate.GiB)
	labelled.Labels, two.Dims, three.Dims = zone, []gate.Dim{{Name: "gpu", N: 2}}, []gate.Dim{{Name: "gpu", N: 3}}
	for _, c := range []struct {
		ask    gate.Ask
		prefer string
		now    time.Duration
		want   string
	}{
		{large, "", 0, "some"},
		{large, "full", 0, "full"},           // it was there before
		{large, "taken", 0, "taken"},         // and what is set aside there is its own
		{large, "small", 0, "some"},          // it can never fit there
		{large, "shut", 0, "some"},           // nor can it be asked
		{large, "unheard", 0, "some"},        //
		{stateful(gate.GiB), "", 0, "small"}, // more room, and large enough for that
		{labelled, "", 0, "labelled"},
		{two, "", 0, "labelled"}, // none is left now
		{three, "", 0, ""},       // and three there are not
		{giant, "", 0, ""},
		{large, "full", time.Hour, ""}, // nobody was heard for so long
	} {
		got, ok := tb.PickStand(&c.ask, c.prefer, c.now)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s %v at %v, preferring %q: %q %v, want %q", c.ask.Memory, c.ask.Dims, c.now, c.prefer, got, ok, c.want)
		}
	}
	if tb.Eligible("full", &large, 0) {
		t.Error("eligible an hour after its last word")
	}
	set("full", func(v *Verdict) { v.Sequence = 9 })
	v := words["full"]
	tb.Observe(&v, time.Hour)
	if !tb.Eligible("full", &large, 0) || tb.Eligible("nowhere", &large, 0) {
		t.Error("eligible is who was heard lately")
	}
}

// Waiters that look at one moment of each other's do not all choose one of many equals, and
// what this replica has under way counts as taken.
func TestPickStandAmongEquals(t *testing.T) {
	tb := New(Options{Buckets: 64})
	for i := range 10 {
		v := plain(fmt.Sprint("h", i), gate.GiB)
		tb.Observe(&v, 0)
	}
	a, chosen := stateful(20*gate.GiB), map[string]int{}
	for i := range 1000 {
		got, _ := tb.PickStand(&a, "", time.Duration(i)*time.Microsecond)
		chosen[got]++
	}
	for i := range 10 {
		if n := chosen[fmt.Sprint("h", i)]; n < 50 || n > 200 {
			t.Errorf("h%d was chosen %d times of 1,000", i, n)
		}
	}
	small := stateful(gate.GiB)
	for i := range 9 {
		r, _ := tb.Lookup(fmt.Sprint("h", i))
		tb.Charge(r, &small, 0)
	}
	if got, _ := tb.PickStand(&a, "", 0); got != "h9" {
		t.Errorf("%s, and all others are being asked", got)
	}
	if got := testing.AllocsPerRun(100, func() { tb.PickStand(&a, "h3", 0); tb.PickStand(&a, "", 0) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
