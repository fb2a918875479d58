package gate_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

func ask(memory gate.Bytes) gate.Ask {
	return gate.Ask{Class: "agent", Memory: memory, Rule: gate.DefaultReserveRule()}
}

func stateful(memory gate.Bytes) gate.Ask {
	a := ask(memory)
	a.Stateful = true
	return a
}

// fill counts how many of an ask an account takes before the gate says no.
func fill(acc gate.Account, a gate.Ask, m gate.Mode) int {
	for n := 0; ; n++ {
		need := gate.Need(a, m)
		if !gate.Fits(gate.Admittable(acc), need) {
			return n
		}
		acc.Reserved = acc.Reserved.Add(need)
	}
}

// The essay: a 32 GiB host takes seven 4 GiB sandboxes by committed accounting, "maybe
// eight if your headroom band is brave".
func TestEssayCommittedHostTakesSeven(t *testing.T) {
	machine := []gate.Limit{{Name: "machine", Size: 32 * gate.GiB}}
	free, _ := gate.Free(machine)
	acc := gate.Account{Free: free, Headroom: gate.DefaultHeadroom(machine)}
	if got := fill(acc, ask(4*gate.GiB), gate.Committed); got != 7 {
		t.Errorf("committed host takes %d, want 7", got)
	}
	acc.Headroom = 0
	if got := fill(acc, ask(4*gate.GiB), gate.Committed); got != 8 {
		t.Errorf("committed host with a brave headroom takes %d, want 8", got)
	}
}

// The essay's heartbeat says 25,600 MiB: 25 stateless creates of 4 GiB fit and the 26th
// does not; 6 stateful ones fit.
func TestEssayHeartbeat(t *testing.T) {
	acc := gate.Account{Free: gate.FromMiB(25600)}
	for _, c := range []struct {
		name string
		ask  gate.Ask
		want int
	}{
		{"stateless", ask(4 * gate.GiB), 25},
		{"stateful", stateful(4 * gate.GiB), 6},
	} {
		if got := fill(acc, c.ask, gate.WorkingSet); got != c.want {
			t.Errorf("%s: %d fit, want %d", c.name, got, c.want)
		}
	}
}

// The essay's reserve is a quarter, or 512 MiB, whichever is larger, and never above what
// was configured. Trap 2 and T13: a committed host charges in full where it checks in
// full, and the host's rule is the only one there is: no replica has a ratio to apply.
func TestReserve(t *testing.T) {
	floor := ask(4 * gate.GiB)
	floor.Rule = gate.ReserveRule{Floor: 700 * gate.MiB}
	learned := func(a gate.Ask, b gate.Bytes) gate.Ask {
		a.Rule.Learned = b
		return a
	}
	twice := ask(gate.GiB)
	twice.Rule.Permille = 2000
	for _, c := range []struct {
		name string
		ask  gate.Ask
		mode gate.Mode
		want gate.Bytes
	}{
		{"a quarter of 4 GiB", ask(4 * gate.GiB), gate.WorkingSet, gate.GiB},
		{"the floor", ask(gate.GiB), gate.WorkingSet, 512 * gate.MiB},
		{"the floor meets the quarter", ask(2 * gate.GiB), gate.WorkingSet, 512 * gate.MiB},
		{"never above configured", ask(128 * gate.MiB), gate.WorkingSet, 128 * gate.MiB},
		{"no fraction above configured", twice, gate.WorkingSet, gate.GiB},
		{"a floor without a fraction", floor, gate.WorkingSet, 700 * gate.MiB},
		{"learned, below the floor", learned(ask(4*gate.GiB), 300*gate.MiB), gate.WorkingSet, 300 * gate.MiB},
		{"learned, above the quarter", learned(ask(4*gate.GiB), 3*gate.GiB), gate.WorkingSet, 3 * gate.GiB},
		{"learned, never above configured", learned(ask(gate.GiB), 3*gate.GiB), gate.WorkingSet, gate.GiB},
		{"learned, and stateful", learned(stateful(4*gate.GiB), gate.MiB), gate.WorkingSet, 4 * gate.GiB},
		{"learned, on a committed host", learned(ask(4*gate.GiB), gate.MiB), gate.Committed, 4 * gate.GiB},
		{"stateful", stateful(4 * gate.GiB), gate.WorkingSet, 4 * gate.GiB},
		{"committed host", ask(4 * gate.GiB), gate.Committed, 4 * gate.GiB},
		{"hugepages only", ask(0), gate.WorkingSet, 0},
	} {
		if got := gate.Reserve(c.ask, c.mode); got != c.want {
			t.Errorf("%s: reserve %s, want %s", c.name, got, c.want)
		}
	}
}

// T16: fractions are not cut to whole units. 5 × 0.5 GiB is 2.5 GiB; an ask is rounded up
// and an offer down, each once, at the edge.
func TestRoundingErrsSafe(t *testing.T) {
	acc := gate.Account{Free: 5 * gate.GiB / 2}
	half := stateful(gate.GiB / 2)
	if got := fill(acc, half, gate.WorkingSet); got != 5 {
		t.Errorf("%d halves fit in 2.5 GiB, want 5", got)
	}
	odd := stateful(gate.MiB + 1)
	if got := gate.Need(odd, gate.WorkingSet); got != 2*gate.MiB {
		t.Errorf("need of 1 MiB and a byte: %s, want 2 MiB", got)
	}
	if got := gate.Admittable(gate.Account{Free: 2*gate.MiB - 1}); got != gate.MiB {
		t.Errorf("admittable of 2 MiB less a byte: %s, want 1 MiB", got)
	}
	if got := gate.Admittable(gate.Account{Free: -1}); got != 0 {
		t.Errorf("admittable below the line: %s, want 0", got)
	}
}

// T22: with a limit of 10 and 9 used one fits; with 10 used none does.
func TestOffByOne(t *testing.T) {
	one := stateful(gate.MiB)
	for used, want := range map[int64]int{8: 2, 9: 1, 10: 0, 11: 0} {
		acc := gate.Account{Free: gate.FromMiB(10), Reserved: gate.FromMiB(used)}
		if got := fill(acc, one, gate.WorkingSet); got != want {
			t.Errorf("%d of 10 used: %d fit, want %d", used, got, want)
		}
	}
}

// T17 and T23: what is negative is no ask and never a credit; a giant is refused and
// leaves no trace, since nothing but the ledger's own entries is ever summed.
func TestAbsurdAsks(t *testing.T) {
	for _, c := range []struct {
		name  string
		ask   gate.Ask
		fault string
	}{
		{"sound", ask(gate.GiB), ""},
		{"hugepages only", gate.Ask{Dims: []gate.Dim{{"hugepages", 1024}}}, ""},
		{"negative memory", ask(-1), "memory"},
		{"least memory", ask(math.MinInt64), "memory"},
		{"giant memory", ask(math.MaxInt64), "memory"},
		{"negative cpu", gate.Ask{CPUMilli: -1}, "cpu"},
		{"giant cpu", gate.Ask{CPUMilli: math.MaxInt64}, "cpu"},
		{"negative fraction", gate.Ask{Rule: gate.ReserveRule{Permille: -1}}, "reserve"},
		{"negative floor", gate.Ask{Rule: gate.ReserveRule{Floor: -1}}, "reserve"},
		{"negative learned", gate.Ask{Rule: gate.ReserveRule{Learned: -1}}, "reserve"},
		{"negative dimension", gate.Ask{Dims: []gate.Dim{{"disk", -1}}}, "disk"},
		{"a dimension twice", gate.Ask{Dims: []gate.Dim{{"disk", 1}, {"disk", 1}}}, "disk"},
		{"unsorted", gate.Ask{Dims: []gate.Dim{{"gpu", 1}, {"disk", 1}}}, "disk"},
	} {
		if got := c.ask.Fault(); got != c.fault {
			t.Errorf("%s: fault %q, want %q", c.name, got, c.fault)
		}
	}
	if gate.Fits(gate.GiB, -1) {
		t.Error("a negative need fits")
	}
	if gate.Fits(gate.Admittable(gate.Account{Free: math.MaxInt64}), gate.Need(ask(math.MaxInt64), gate.Committed)) {
		t.Error("a giant fits")
	}
}

// Charge for life against the essay's until settled, and design §12.3: nothing stateful is
// ever charged below its size. T26: what a guest gave back to itself but not to the host
// still counts, since resident is the host's word.
func TestCharge(t *testing.T) {
	settling := ask(4 * gate.GiB)
	settling.Rule.Until = gate.UntilSettled
	db := stateful(4 * gate.GiB)
	db.Rule.Until = gate.UntilSettled
	for _, c := range []struct {
		name  string
		ask   gate.Ask
		mode  gate.Mode
		usage gate.Usage
		want  gate.Bytes
	}{
		{"not yet seen", ask(4 * gate.GiB), gate.WorkingSet, gate.Usage{}, gate.GiB},
		{"idle, for life", ask(4 * gate.GiB), gate.WorkingSet, gate.Usage{Resident: 300 * gate.MiB, Settled: true}, gate.GiB},
		{"grown", ask(4 * gate.GiB), gate.WorkingSet, gate.Usage{Resident: 3 * gate.GiB}, 3 * gate.GiB},
		{"until settled, not yet", settling, gate.WorkingSet, gate.Usage{Resident: 300 * gate.MiB}, gate.GiB},
		{"until settled", settling, gate.WorkingSet, gate.Usage{Resident: 300 * gate.MiB, Settled: true}, 300 * gate.MiB},
		{"until settled on a committed host", settling, gate.Committed, gate.Usage{Resident: 1, Settled: true}, 4 * gate.GiB},
		{"trap 3: an idle database on a committed host is not free", db, gate.Committed, gate.Usage{Resident: 1, Settled: true}, 4 * gate.GiB},
		{"idle database", db, gate.WorkingSet, gate.Usage{Resident: 1, Settled: true}, 4 * gate.GiB},
		{"database above its size", db, gate.WorkingSet, gate.Usage{Resident: 5 * gate.GiB}, 5 * gate.GiB},
		{"unticketed: what it holds", gate.Ask{}, gate.WorkingSet, gate.Usage{Resident: 7 * gate.MiB}, 7 * gate.MiB},
	} {
		if got := gate.Charge(c.ask, c.mode, c.usage); got != c.want {
			t.Errorf("%s: charge %s, want %s", c.name, got, c.want)
		}
	}
}

// T14: the budget is the least over the machine and every ancestor; 128 GB of MemTotal
// are nothing to whoever lives in 2 GB. T96 is the measurer's: clean file cache is not in
// Used. T15: using more than there is closes intake and does nothing else.
func TestFreeIsTheLeastOverAllLimits(t *testing.T) {
	machine := gate.Limit{Name: "machine", Size: 128 * gate.GiB, Used: 4 * gate.GiB}
	slice := gate.Limit{Name: "service", Size: 2 * gate.GiB, Used: 100 * gate.MiB}
	over := gate.Limit{Name: "budget", Size: gate.GiB, Used: 3 * gate.GiB}
	for _, c := range []struct {
		limits []gate.Limit
		free   gate.Bytes
		name   string
	}{
		{nil, 0, ""},
		{[]gate.Limit{machine}, 124 * gate.GiB, "machine"},
		{[]gate.Limit{machine, slice}, 1948 * gate.MiB, "service"},
		{[]gate.Limit{slice, machine}, 1948 * gate.MiB, "service"},
		{[]gate.Limit{machine, over, slice}, -2 * gate.GiB, "budget"},
	} {
		free, name := gate.Free(c.limits)
		if free != c.free || name != c.name {
			t.Errorf("Free(%v) = %s by %q, want %s by %q", c.limits, free, name, c.free, c.name)
		}
	}
	limits := []gate.Limit{machine, slice}
	free, _ := gate.Free(limits)
	acc := gate.Account{Free: free, Headroom: gate.DefaultHeadroom(limits)}
	if got := fill(acc, stateful(2*gate.GiB), gate.WorkingSet); got != 0 {
		t.Errorf("%d guests of 2 GiB fit in a slice of 2 GiB", got)
	}
}

// T103: there is headroom by default, on the smallest host too.
func TestDefaultHeadroom(t *testing.T) {
	for size, want := range map[gate.Bytes]gate.Bytes{
		gate.GiB:      256 * gate.MiB,
		4 * gate.GiB:  256 * gate.MiB,
		8 * gate.GiB:  410 * gate.MiB, // 409.6
		32 * gate.GiB: 1639 * gate.MiB,
	} {
		if got := gate.DefaultHeadroom([]gate.Limit{{Size: 1 << 50}, {Size: size}}); got != want {
			t.Errorf("headroom of %s: %s, want %s", size, got, want)
		}
	}
	if got := gate.DefaultHeadroom(nil); got != 256*gate.MiB {
		t.Errorf("headroom of nothing measured: %s", got)
	}
}

func TestSaturation(t *testing.T) {
	const most, least = gate.Bytes(math.MaxInt64), gate.Bytes(math.MinInt64)
	for _, c := range []struct {
		name      string
		got, want gate.Bytes
	}{
		{"most + 1", most.Add(1), most},
		{"most + most", most.Add(most), most},
		{"least + -1", least.Add(-1), least},
		{"most + least", most.Add(least), -1},
		{"least - 1", least.Sub(1), least},
		{"most - -1", most.Sub(-1), most},
		{"0 - least", gate.Bytes(0).Sub(least), most},
		{"-1 - least", gate.Bytes(-1).Sub(least), most},
		{"most MiB", gate.FromMiB(math.MaxInt64), most},
		{"least MiB", gate.FromMiB(math.MinInt64), least},
		{"most x most", most.Scale(math.MaxInt64, 1), most},
		{"least x most", least.Scale(math.MaxInt64, 1), least},
		{"least x least", least.Scale(math.MinInt64, 1), most},
		{"least x 1", least.Scale(1, 1), least},
		{"least of most / most", least.Scale(math.MaxInt64, math.MaxInt64), least},
		{"-1 in halves", gate.Bytes(-1).Scale(1, 2), -1},
	} {
		if c.got != c.want {
			t.Errorf("%s = %d, want %d", c.name, c.got, c.want)
		}
	}
}

// The essay's score, in thousandths: 0.6 a free core, 0.3 a free GiB, 5 for stream-restore.
func TestScore(t *testing.T) {
	w := gate.DefaultWeights()
	if got := gate.Score(w, 11_800, gate.FromMiB(28588), false); got != 7080+8375 {
		t.Errorf("the essay's host scores %d, want %d", got, 7080+8375)
	}
	if got := gate.Score(w, 0, 0, true); got != 5000 {
		t.Errorf("stream-restore alone scores %d, want 5000", got)
	}
	if got := gate.Score(w, -2000, 0, false); got != -1200 {
		t.Errorf("an oversubscribed cpu scores %d, want -1200", got)
	}
	// T17: absurd figures saturate; they never come out on the other side.
	if got := gate.Score(gate.Weights{Core: math.MaxInt64, GiB: math.MaxInt64}, math.MaxInt64, math.MaxInt64, false); got != math.MaxInt64 {
		t.Errorf("an absurd host scores %d", got)
	}
}

func TestTakes(t *testing.T) {
	a := gate.Ask{Dims: []gate.Dim{{"hugepages", 1024}}}
	for name, want := range map[string]int64{"hugepages": 1024, "gpu": 0, gate.SandboxDim: 1} {
		if got := a.Takes(name); got != want {
			t.Errorf("takes %d of %s, want %d", got, name, want)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	limits := []gate.Limit{{Name: "machine", Size: 32 * gate.GiB}, {Name: "slice", Size: 16 * gate.GiB}}
	a := ask(4 * gate.GiB)
	got := testing.AllocsPerRun(100, func() {
		free, _ := gate.Free(limits)
		acc := gate.Account{Free: free, Headroom: gate.DefaultHeadroom(limits), Unresident: gate.Charge(a, gate.WorkingSet, gate.Usage{})}
		if a.Fault() != "" || !gate.Fits(gate.Admittable(acc), gate.Need(a, gate.WorkingSet)) {
			t.Fatal("does not fit")
		}
		_ = gate.Score(gate.DefaultWeights(), 1000, free, true)
	})
	if got != 0 {
		t.Errorf("%v allocations a decision", got)
	}
}

// clamp is what the exact result is to int64.
func clamp(n *big.Int) int64 {
	if n.IsInt64() {
		return n.Int64()
	}
	if n.Sign() < 0 {
		return math.MinInt64
	}
	return math.MaxInt64
}

func floorDiv(a, b *big.Int) *big.Int {
	q, m := new(big.Int), new(big.Int)
	return q.Sub(a, m.Mod(a, b)).Quo(q, b) // Mod is Euclid's, so the difference divides
}

// Every conversion against integers that cannot overflow.
func FuzzBytes(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 1 << 20, 1<<20 - 1, -(1 << 20), math.MaxInt64, math.MinInt64, math.MaxInt64 / 1000} {
		f.Add(n, n, int64(1000))
		f.Add(n, int64(250), int64(3))
		f.Add(int64(3), n, int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, x, y, den int64) {
		b, c := gate.Bytes(x), gate.Bytes(y)
		bx, by, mib := big.NewInt(x), big.NewInt(y), big.NewInt(1<<20)
		equal := func(what string, got int64, want *big.Int) {
			t.Helper()
			if got != clamp(want) {
				t.Errorf("%s of %d, %d: %d, want %s", what, x, y, got, want)
			}
		}
		equal("add", int64(b.Add(c)), new(big.Int).Add(bx, by))
		equal("sub", int64(b.Sub(c)), new(big.Int).Sub(bx, by))
		equal("from MiB", int64(gate.FromMiB(x)), new(big.Int).Mul(bx, mib))
		equal("floor MiB", b.FloorMiB(), floorDiv(bx, mib))
		up := floorDiv(new(big.Int).Neg(bx), mib)
		equal("ceil MiB", b.CeilMiB(), up.Neg(up))
		product := new(big.Int).Mul(bx, by)
		equal("permille", int64(b.Permille(y)), floorDiv(product, big.NewInt(1000)))
		if den > 0 {
			equal(fmt.Sprintf("scale by / %d", den), int64(b.Scale(y, den)), floorDiv(product, big.NewInt(den)))
		}
	})
}

// Whatever is asked and measured, what is promised never passes the line, a need is what
// the ledger holds, and a charge never falls below what stands under it.
func FuzzDecision(f *testing.F) {
	f.Add(int64(4<<30), int64(250), int64(512<<20), int64(1<<30), uint8(0), int64(1<<35))
	f.Add(int64(-1), int64(-5), int64(math.MinInt64), int64(-1), uint8(7), int64(math.MinInt64))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), uint8(2), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, memory, permille, floor, resident int64, bits uint8, free int64) {
		a := gate.Ask{
			Memory: gate.Bytes(memory), Stateful: bits&1 != 0,
			Rule: gate.ReserveRule{Permille: permille, Floor: gate.Bytes(floor), Until: gate.ReserveUntil(bits >> 1 & 1), SettleAfter: time.Second},
		}
		if a.Fault() != "" {
			return
		}
		mode := gate.Mode(bits >> 2 & 1)
		u := gate.Usage{Resident: gate.Bytes(resident).Positive(), Settled: bits&8 != 0}
		need := gate.Need(a, mode)
		switch reserve := gate.Reserve(a, mode); {
		case need < reserve, need >= reserve+gate.MiB, need%gate.MiB != 0:
			t.Errorf("reserve %d needs %d", reserve, need)
		case reserve > a.Memory, reserve < 0:
			t.Errorf("reserve %d of %d", reserve, a.Memory)
		}
		charge := gate.Charge(a, mode, u)
		if charge < u.Resident || (a.Stateful && charge < a.Memory) || (mode == gate.Committed && charge < a.Memory) {
			t.Errorf("charge %d of %+v with %+v", charge, a, u)
		}
		acc := gate.Account{Free: gate.Bytes(free)}
		if gate.Fits(gate.Admittable(acc), need) {
			acc.Reserved = need
			if room := gate.Room(acc); need > 0 && room < 0 {
				t.Errorf("promised %d of %d: room %d", need, free, room)
			}
		}
	})
}

func Example() {
	machine := []gate.Limit{{Name: "machine", Size: 32 * gate.GiB, Used: 0}}
	free, _ := gate.Free(machine)
	acc := gate.Account{Free: free, Headroom: gate.DefaultHeadroom(machine)}
	a := gate.Ask{Memory: 4 * gate.GiB, Rule: gate.DefaultReserveRule()}
	for _, mode := range []gate.Mode{gate.WorkingSet, gate.Committed} {
		n := gate.Admittable(acc) / gate.Need(a, mode)
		fmt.Printf("%s: %s admittable, %s each, %d fit\n", mode, gate.Admittable(acc), gate.Need(a, mode), n)
	}
	// Output:
	// working-set: 31129 MiB admittable, 1024 MiB each, 30 fit
	// committed: 31129 MiB admittable, 4096 MiB each, 7 fit
}

func ExampleFree() {
	free, name := gate.Free([]gate.Limit{
		{Name: "machine", Size: 128 * gate.GiB, Used: 8 * gate.GiB},
		{Name: "memory.max of /plimsoll.slice", Size: 2 * gate.GiB, Used: gate.GiB},
	})
	fmt.Println(free, "by", name)
	// Output: 1024 MiB by memory.max of /plimsoll.slice
}

func BenchmarkDecision(b *testing.B) {
	b.ReportAllocs()
	acc := gate.Account{Free: 32 * gate.GiB, Headroom: gate.GiB}
	a := ask(4 * gate.GiB)
	for b.Loop() {
		if !gate.Fits(gate.Admittable(acc), gate.Need(a, gate.WorkingSet)) {
			b.Fatal("does not fit")
		}
	}
}
