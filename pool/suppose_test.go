package pool

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestSuppose: what a claim gets of a store that is only supposed is what it gets of the store that
// the rows came from, and that one is left as it was.
func TestSuppose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &machine{m: NewModel()}
		x.m.Advance(start)
		x.configure(t)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			rapid.SampledFrom([]func(*rapid.T){x.claim, x.claim, x.attempt, x.settle, x.leave, x.end, x.advance}).Draw(t, "step")(t)
		}
		if rapid.Bool().Draw(t, "overridden") {
			x.m.Override("p", Override{Cap: rapid.Int64Range(1, 4).Draw(t, "cap"), By: "op"}, 0)
		}
		var rows []Row
		for _, r := range x.m.Rows() {
			if !r.State.Ended() {
				rows = append(rows, r)
			}
		}
		overrides := map[string]Override{}
		for _, l := range x.m.Lines() {
			overrides[l.Name] = l.Override
		}
		x.m.Advance(x.m.Now().Add(Grace)) // what was freed lately is not among the rows
		before := fmt.Sprint(x.m.Rows())
		supposed := Suppose(x.limits, overrides, x.m.Orders(), rows, x.m.Now())
		if err := supposed.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			c := Claim{ID: fmt.Sprint("new", i), Consumer: "other", Key: fmt.Sprint(i), Pool: "p", Mode: Refuse, Contents: Contents{Tenant: "t1", Class: "small"}}
			if got := supposed.Claim(c); fmt.Sprint(x.m.Rows()) != before {
				t.Fatal("the store itself changed")
			} else if i == 0 {
				if want := x.m.Claim(c); got.Verdict != want.Verdict || got.Standing != want.Standing {
					t.Fatalf("supposed %+v, it is %+v", got, want)
				}
				before = fmt.Sprint(x.m.Rows())
			}
		}
	})
}
