// Package gate is the arithmetic of admission: what an ask is charged, what a host
// may still promise, and whether the one fits the other.
//
// It decides nothing about which host, whose turn or whose ticket. It does no I/O,
// reads no clock, allocates nothing, and its functions may be called from any
// goroutine.
//
//	admittable = max(0, free − headroom − Σ (charge − resident)⁺ − Σ open reservations)
//
// Worked: a host of 32 GiB with a headroom of 1,639 MiB (5 %) and nothing running
// promises 31,129 MiB. Sandboxes of 4 GiB are charged 4,096 MiB each in committed
// mode, so 7 fit; in working-set mode a quarter, 1,024 MiB, so 30 fit.
package gate

import "time"

// Mode says what a stateless sandbox is charged on a host.
type Mode uint8

const (
	// WorkingSet charges what is resident, and at least the reserve.
	WorkingSet Mode = iota
	// Committed charges what was configured.
	Committed
)

// String returns the word of the configuration and of the heartbeat.
func (m Mode) String() string {
	if m == Committed {
		return "committed"
	}
	return "working-set"
}

// Other is the mode that a host is not in: what it would hold there is shown beside.
func (m Mode) Other() Mode {
	if m == Committed {
		return WorkingSet
	}
	return Committed
}

// ReserveUntil says how long a reserve stands under a running sandbox.
type ReserveUntil uint8

const (
	// UntilEnd keeps the reserve for life: a sandbox that peaks late finds it there.
	UntilEnd ReserveUntil = iota
	// UntilSettled drops it at the first sample that is SettleAfter past the boot, as the
	// essay has it. Kept to compare: it guards only the first seconds.
	UntilSettled
)

// ReserveRule is a class's setting for the reserve of its stateless sandboxes.
type ReserveRule struct {
	Permille    int64         // reserve_fraction in thousandths of the configured memory; 250
	Floor       Bytes         // reserve_floor; 512 MiB
	Until       ReserveUntil  // how long it stands
	SettleAfter time.Duration // for UntilSettled; 10 s
	Learned     Bytes         // what runs of its template have shown; zero: nothing yet, and the two above hold
}

// DefaultReserveRule is the essay's: a quarter, or 512 MiB, whichever is larger.
func DefaultReserveRule() ReserveRule {
	return ReserveRule{Permille: 250, Floor: 512 * MiB, SettleAfter: 10 * time.Second}
}

// Ask is what one sandbox wants of a host. It goes along with every Reserve: the
// agent has no class file and computes need and charge from it alone.
type Ask struct {
	Class    string
	Template string
	Memory   Bytes // configured size
	CPUMilli int64 // thousandths of a core; scores, never refuses
	Priority int   // higher is kept longer when a bet is lost
	Stateful bool  // charged in full, never reclaimed
	Rule     ReserveRule
	Dims     []Dim // further hard dimensions, sorted by name
	Labels   []Label
	// HoldOnExit keeps the place of a sandbox that ends by itself for its next start under
	// the same admission. It changes none of the figures.
	HoldOnExit bool
}

// Dim is an amount of one named hard dimension: sandbox slots, hugepages, disk, GPUs.
type Dim struct {
	Name string
	N    int64
}

// SandboxDim is the dimension that every sandbox takes at least one of.
const SandboxDim = "sandboxes"

// Takes is how much of a dimension a sandbox takes.
func (a *Ask) Takes(name string) int64 {
	var n int64
	for _, d := range a.Dims {
		if d.Name == name {
			n = d.N
		}
	}
	if name == SandboxDim {
		return max(n, 1)
	}
	return n
}

// Label is one name and value that a host must carry to take an ask.
type Label struct{ Name, Value string }

// What one ask may count for at most, so that no sum of them can wrap.
const (
	maxMemory   = PiB
	maxCPUMilli = 1 << 40
)

// Fault names what is not an amount at all in an ask, or "". A negative figure would be a
// credit, and a dimension named twice would be counted once. Memory may be zero: what is
// backed by hugepages counts in that dimension only.
func (a *Ask) Fault() string {
	switch {
	case a.Memory < 0 || a.Memory > maxMemory:
		return "memory"
	case a.CPUMilli < 0 || a.CPUMilli > maxCPUMilli:
		return "cpu"
	case a.Rule.Permille < 0 || a.Rule.Floor < 0 || a.Rule.Learned < 0:
		return "reserve"
	}
	for i, d := range a.Dims {
		if d.N < 0 || (i > 0 && a.Dims[i-1].Name >= d.Name) {
			return d.Name
		}
	}
	return ""
}

// Reserve is what an ask is charged at least: configured for the stateful and on a
// committed host, else what was learned, and until then max(fraction × configured, floor);
// never above configured.
func Reserve(a Ask, m Mode) Bytes { return a.ReserveOn(m) }

// ReserveOn is Reserve where an ask is at hand and need not be copied.
func (a *Ask) ReserveOn(m Mode) Bytes {
	if a.Stateful || m == Committed {
		return a.Memory
	}
	if a.Rule.Learned > 0 {
		return min(a.Rule.Learned, a.Memory)
	}
	return min(max(a.Memory.Permille(a.Rule.Permille), a.Rule.Floor), a.Memory)
}

// Need is what the ledger will hold for an ask: its reserve, rounded up to whole MiB.
func Need(a Ask, m Mode) Bytes { return a.NeedOn(m) }

// NeedOn is Need where an ask is at hand and need not be copied.
func (a *Ask) NeedOn(m Mode) Bytes {
	return FromMiB(a.ReserveOn(m).CeilMiB())
}

// Usage is what the last sample saw of one running sandbox.
type Usage struct {
	Resident Bytes // anonymous, shared and swapped-out memory; not its file cache
	Settled  bool  // a sample at least SettleAfter past the boot has seen it
}

// Cover is what stands under a running sandbox whatever it holds: its need, until its
// rule drops it.
func Cover(a Ask, m Mode, u Usage) Bytes {
	if a.Rule.Until == UntilSettled && u.Settled && !a.Stateful && m == WorkingSet {
		return 0
	}
	return Need(a, m)
}

// Charge is what a running sandbox counts for: max(resident, reserve), or configured
// for the stateful and on a committed host (one above its size counts as it is). It is
// never below the need while that stands, so a boot moves nothing when it redeems.
func Charge(a Ask, m Mode, u Usage) Bytes { return max(u.Resident, Cover(a, m, u)) }

// Limit is one bound on the host's memory with what counts against it: the machine,
// an ancestor cgroup, or the agent's own budget.
type Limit struct {
	Name string
	Size Bytes
	Used Bytes
}

// Free returns the least room under any limit, and that limit's name. No limits at
// all means that nothing was measured, so nothing is free.
func Free(limits []Limit) (Bytes, string) {
	if len(limits) == 0 {
		return 0, ""
	}
	free, name := limits[0].Size.Sub(limits[0].Used), limits[0].Name
	for _, l := range limits[1:] {
		if f := l.Size.Sub(l.Used); f < free {
			free, name = f, l.Name
		}
	}
	return free, name
}

// DefaultHeadroom is max(5 % of the smallest limit, 256 MiB), in whole MiB.
func DefaultHeadroom(limits []Limit) Bytes {
	if len(limits) == 0 {
		return 256 * MiB
	}
	smallest := limits[0].Size
	for _, l := range limits[1:] {
		smallest = min(smallest, l.Size)
	}
	return max(FromMiB(smallest.Permille(50).CeilMiB()), 256*MiB)
}

// Account is everything that the load line is drawn from.
type Account struct {
	Free       Bytes // least room under any limit, as measured
	Headroom   Bytes // never promised
	Unresident Bytes // Σ (charge − resident)⁺ over the running: promised, not yet touched
	Reserved   Bytes // Σ open reservations
}

// Room is the account's signed balance: below zero by how far the load passed the line.
func Room(a Account) Bytes {
	return a.Free.Sub(a.Headroom).Sub(a.Unresident).Sub(a.Reserved)
}

// Admittable is what a host can still promise, in whole MiB, never below zero.
func Admittable(a Account) Bytes {
	return FromMiB(Room(a).Positive().FloorMiB())
}

// Fits says whether a need may be promised out of an admittable.
func Fits(admittable, need Bytes) bool { return need >= 0 && admittable >= need }

// Weights are the score's, in thousandths a core, a GiB and a host that restores by stream.
type Weights struct{ Core, GiB, StreamRestore int64 }

// DefaultWeights are the essay's: 0.6 a free core, 0.3 a free GiB, 5 for stream-restore.
func DefaultWeights() Weights { return Weights{Core: 600, GiB: 300, StreamRestore: 5000} }

// Score is a host's desirability in thousandths, more is emptier. Both amounts are net
// of charges and reservations. Saturated integers, so that it is the same on every machine.
func Score(w Weights, freeCPUMilli int64, free Bytes, streamRestore bool) int64 {
	s := Bytes(freeCPUMilli).Permille(w.Core).Add(Bytes(free.FloorMiB()).per1024(w.GiB))
	if streamRestore {
		s = s.Add(Bytes(w.StreamRestore))
	}
	return int64(s)
}
