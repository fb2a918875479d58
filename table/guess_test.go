package table

import (
	"fmt"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Of many groups of equal hosts each host is picked as often as another, however many there are in
// its group, and whether a guess finds it or the look at each group.
func TestEqualHostsOfManyGroups(t *testing.T) {
	for name, better := range map[string]int{"guessed": 0, "looked for": 1} {
		tb := New(Options{})
		for i := range 60 {
			v := plain(fmt.Sprintf("h%d", i), 8*gate.GiB)
			v.Labels = []gate.Label{{Name: "rack", Value: fmt.Sprint(min(i, 12))}} // 48 in the last
			tb.Observe(&v, 0)
		}
		for i := range better { // the best by score, without room: no guess can be right
			v := plain(fmt.Sprintf("full%d", i), 0)
			v.CPUFreeMilli = 64_000
			tb.Observe(&v, 0)
		}
		a, n := stateless(gate.GiB), map[string]int{}
		for i := range 60_000 {
			c, _ := tb.Pick(0, &a, &PickOptions{Rand: uint64(i)})
			n[c.Host]++
		}
		for id, k := range n {
			if k < 850 || k > 1150 {
				t.Errorf("%s: %s %d of 60000", name, id, k)
			}
		}
		if len(n) != 60 {
			t.Errorf("%s: %d hosts are picked of 60", name, len(n))
		}
		if err := tb.CheckInvariants(); err != nil {
			t.Error(err)
		}
	}
}
