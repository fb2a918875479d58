package table

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

// TestCopy: along random tapes a copy is sound, takes just what the table would take, and nothing
// that is done to it is seen in the table.
func TestCopy(t *testing.T) {
	taken := 0
	for seed := range uint64(8) {
		q := query{rand: seed}
		p := make(tape, 2000)
		for i := range p {
			p[i] = byte(q.next())
		}
		r := newRig(t, Options{Strategy: Strategy(seed % 2), Buckets: 32, groups: 5 + int(seed%4)*10})
		for step := 0; len(p) > 0; step++ {
			if r.step(&p); step%16 != 0 {
				continue
			}
			taken += r.copies()
		}
	}
	if taken < 500 {
		t.Errorf("copies took %d asks", taken)
	}
}

// copies fills a copy, and returns how many it took.
func (r *rig) copies() (n int) {
	r.t.Helper()
	c, before := r.table.Copy(), r.seen()
	if err := c.CheckInvariants(); err != nil {
		r.t.Fatal("the copy: ", err)
	}
	if got := (&rig{table: c, now: r.now}).seen(); got != before {
		r.t.Fatalf("the copy is\n%s\nand not\n%s", got, before)
	}
	ask := gate.Ask{Memory: 64 * gate.MiB, Stateful: true}
	for ; ; n++ {
		choice, ok := c.Pick(r.now, &ask, &PickOptions{Rand: uint64(n), Cohort: 7})
		if !ok {
			break
		}
		held := c.Charge(choice.Ref, &ask, 7)
		c.Place(held, r.now)
		c.Unanswered(choice.Ref, r.now)
	}
	for i := range 3 {
		c.Forget(fmt.Sprintf("h%d", i))
	}
	c.SetReplicas("", nil)
	if err := c.CheckInvariants(); err != nil {
		r.t.Fatal("the copy, filled: ", err)
	}
	if err := r.table.CheckInvariants(); err != nil {
		r.t.Fatal("the table: ", err)
	}
	if after := r.seen(); after != before {
		r.t.Fatalf("the table is\n%s\nand was\n%s", after, before)
	}
	return n
}

// seen is what a table says of its hosts.
func (r *rig) seen() string {
	out := ""
	ask := gate.Ask{Memory: 512 * gate.MiB, Rule: gate.DefaultReserveRule()}
	for i := range 9 {
		id := fmt.Sprintf("h%d", i)
		cause, until := r.table.Quarantined(id, r.now)
		out += fmt.Sprintln(id, cause, until, r.table.UnansweredBy(id), r.table.Near(r.now, &ask, &PickOptions{Require: id}, 1))
	}
	y := r.table.Explain(r.now, &ask, &PickOptions{}, 9)
	return out + fmt.Sprintf("%+v %+v", y, r.table.Stats())
}

// TestCopyIsWhole: what a table keeps is copied, or made anew: a field that is added later is not
// forgotten.
func TestCopyIsWhole(t *testing.T) {
	if n := reflect.TypeFor[Table]().NumField(); n != 27 {
		t.Errorf("a Table has %d fields: look whether Copy takes the new ones along, then count them here", n)
	}
}

// BenchmarkCopy is what a question of what would be costs under the replica's lock.
func BenchmarkCopy(b *testing.B) {
	for _, hosts := range []int{100, 10_000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			tb := New(Options{})
			for i := range hosts {
				v := plain(fmt.Sprint("h", i), gate.FromMiB(int64(i%30)*1024))
				if _, err := tb.Observe(&v, 0); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				tb.Copy()
			}
		})
	}
}
