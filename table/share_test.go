package table

import (
	"fmt"
	"slices"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

func replicaNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("replica-%d", i))
	}
	return names
}

// ownedBy is who owns each of so many hosts, by the word of each replica's own table.
func ownedBy(t *testing.T, hosts int, live []string) map[string]string {
	t.Helper()
	owner := map[string]string{}
	for _, self := range live {
		tb := New(Options{Buckets: 16})
		for k := range hosts {
			v := plain(fmt.Sprintf("h%d", (k*7+len(self))%hosts), gate.GiB) // heard in another order
			tb.Observe(&v, 0)
		}
		tb.SetReplicas(self, live)
		if err := tb.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
		for i := range tb.hosts {
			if id := tb.hosts[i].id; tb.rests[i].own {
				if owner[id] != "" {
					t.Fatalf("%s is of %s and of %s", id, owner[id], self)
				}
				owner[id] = self
			}
		}
	}
	return owner
}

// Every host is of exactly one replica, by each one's own reckoning, and no replica has more
// than its part; when one goes, few hosts but its own change hands.
func TestShares(t *testing.T) {
	live := replicaNames(16)
	before := ownedBy(t, 1000, live)
	n := map[string]int{}
	for _, self := range before {
		n[self]++
	}
	if len(before) != 1000 {
		t.Errorf("%d of 1,000 hosts are somebody's", len(before))
	}
	for self, k := range n {
		if k > 63 {
			t.Errorf("%s has %d of 1,000 hosts", self, k)
		}
	}
	after, moved := ownedBy(t, 1000, live[1:]), 0
	for id, self := range before {
		if self != live[0] && after[id] != self {
			moved++
		}
	}
	if moved > 300 {
		t.Errorf("%d hosts of others changed hands when one replica went", moved)
	}
}

// A replica that is alone, or that is not among those that are up, treats all hosts alike, and a
// host that comes later is somebody's at once.
func TestNoShare(t *testing.T) {
	tb := with(t, Options{}, plain("a", gate.GiB), plain("b", gate.GiB))
	all := func(want bool) {
		t.Helper()
		if got := tb.rests[0].own && tb.rests[1].own; got != want {
			t.Errorf("all are own: %v", got)
		}
		if err := tb.CheckInvariants(); err != nil {
			t.Error(err)
		}
	}
	all(true)
	tb.SetReplicas("r1", []string{"r2", "r1"})
	all(false)
	tb.SetReplicas("r1", []string{"r2", "r3"})
	all(true)
	tb.SetReplicas("r1", []string{"r1", "r1"})
	all(true)
	tb.SetReplicas("r1", []string{"r1", "r2"})
	for i := range 40 {
		v := plain(fmt.Sprint("late", i), gate.GiB)
		tb.Observe(&v, 0)
	}
	if n := tb.countOwn(); n < 10 || n > 32 {
		t.Errorf("%d of 42 hosts are own", n)
	}
	tb.SetReplicas("r1", []string{"r1", "r2"})
	if n := tb.countOwn(); n != 21 {
		t.Errorf("%d of 42 hosts are own of two replicas", n)
	}
}

func (t *Table) countOwn() (n int) {
	for i := range t.hosts {
		if t.rests[i].own {
			n++
		}
	}
	return n
}

// The own share comes first, unless another's host is better by more than a bucket and one such
// sandbox; an own host that is worse than that is taken when no other has room.
func TestOwnShareFirst(t *testing.T) {
	tb := New(Options{Buckets: 128})
	var own, other []string
	for i := range 8 {
		v := plain(fmt.Sprint("h", i), 20*gate.GiB)
		tb.Observe(&v, 0)
	}
	tb.SetReplicas("r1", []string{"r1", "r2"})
	for i := range tb.hosts {
		if tb.rests[i].own {
			own = append(own, tb.hosts[i].id)
		} else {
			other = append(other, tb.hosts[i].id)
		}
	}
	a := stateful(gate.GiB) // a bucket is one GiB
	for _, step := range []struct {
		own, others gate.Bytes // admittable
		want        []string
	}{
		{20 * gate.GiB, 20 * gate.GiB, own},
		{18 * gate.GiB, 20 * gate.GiB, own},
		{17 * gate.GiB, 20 * gate.GiB, other},
		{0, 20 * gate.GiB, other},
		{20 * gate.GiB, 0, own},
	} {
		for i := range tb.hosts {
			v := plain(tb.hosts[i].id, step.others)
			if tb.rests[i].own {
				v.Admittable, v.Free = step.own, step.own
			}
			v.Sequence = tb.rests[i].sequence + 1
			tb.Observe(&v, 0)
		}
		for n := range uint64(50) {
			if c, ok := tb.Pick(0, &a, &PickOptions{Rand: n}); !ok || !slices.Contains(step.want, c.Host) {
				t.Fatalf("own at %v, others at %v: picked %q", step.own, step.others, c.Host)
			}
		}
	}
	if got := testing.AllocsPerRun(100, func() { tb.Pick(0, &a, &PickOptions{}) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
