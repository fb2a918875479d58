package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// Plan is everything that a seed decides before anything happens. Shrinking takes parts of
// it away and looks whether the violation is still there.
type Plan struct {
	Seed     uint64
	Replicas int
	Hosts    int
	Callers  int
	Active   time.Duration // callers come and faults happen
	Episodes []Episode     // in the order of their beginnings
	Without  []int         // numbers of the episodes that are left out
	Learned  int           // thousandths of its size that a sandbox is learned to need; 0: nothing is learned
}

// Episode is one fault that lasts.
type Episode struct {
	No   int
	Kind Kind
	At   time.Duration
	For  time.Duration
	Who  int // index of a replica or a host, where one is meant
	Arg  int // percent, or how many
}

// Kind is a kind of fault.
type Kind string

// The kinds.
const (
	Lossy       Kind = "lossy network"      // frames lost, doubled, late, reordered
	PauseRep    Kind = "paused replica"     // 0-120 s, then it goes on where it was
	KillRep     Kind = "killed replica"     // its passages are gone, its table is empty
	PauseHost   Kind = "paused agent"       // its sandboxes go on
	KillHost    Kind = "killed agent"       // comes back with its state
	WipeHost    Kind = "agent without disk" // comes back without its state; its sandboxes run on, or the whole machine was started anew
	ClockJump   Kind = "clock jump"         // the store's wall clock, ± 1 h
	Partition   Kind = "partition"          // one agent from everybody
	HalfOpen    Kind = "half-open link"     // answers of one agent are lost
	Isolated    Kind = "isolated replica"   // one replica from every agent
	BadStore    Kind = "failing store"      // before or after it persisted
	Frozen      Kind = "frozen heartbeats"  // unasked words are lost, answers flow
	RotateKeys  Kind = "key rotation"
	Storm       Kind = "storm of retries"  // callers without any patience
	Cohort      Kind = "cohort burst"      // many of one tenant at once
	Behaviour   Kind = "changed behaviour" // a class holds four times as much
	LowerCap    Kind = "lowered cap"
	OutOfMemory Kind = "other use" // something else eats a host's memory
	Creeping    Kind = "creeping use"
	Ordered     Kind = "intake" // an operator cordons a host, or drains it

	AllPaused     Kind = "all replicas paused" // nobody could hear anything
	StoreAway     Kind = "store away"          // nothing is persisted
	SilentHost    Kind = "silent host"         // for longer than a lease lasts: cut off, or standing still
	SilentMost    Kind = "most hosts silent"   // likewise, more than half of them
	CapForAWhile  Kind = "cap for a while"     // an operator's, which ends by itself
	Hold          Kind = "hold"                // nothing is admitted until the operator resumes
	Reconfigured  Kind = "changed configuration"
	SilentCallers Kind = "callers that die" // of the pool without hosts: no heartbeat any more
	NoListing     Kind = "no listing"       // whoever lists what runs without hosts is away
)

// kinds with how often each is drawn, how long it lasts at most, and what Arg means.
var kinds = []struct {
	kind    Kind
	weight  int
	longest time.Duration
	arg     int
}{
	{Lossy, 4, 60 * time.Second, 25},
	{PauseRep, 3, 120 * time.Second, 0},
	{KillRep, 3, 20 * time.Second, 0},
	{PauseHost, 3, 120 * time.Second, 0},
	{KillHost, 4, 20 * time.Second, 0},
	{WipeHost, 2, 20 * time.Second, 0},
	{ClockJump, 1, 0, 3600},
	{Partition, 3, 150 * time.Second, 0},
	{HalfOpen, 2, 60 * time.Second, 0},
	{Isolated, 2, 60 * time.Second, 0},
	{BadStore, 3, 30 * time.Second, 40},
	{Frozen, 2, 60 * time.Second, 0},
	{RotateKeys, 1, 40 * time.Second, 0},
	{Storm, 2, 20 * time.Second, 30},
	{Cohort, 2, 0, 32},
	{Behaviour, 1, 40 * time.Second, 0},
	{LowerCap, 2, 40 * time.Second, 0},
	{OutOfMemory, 2, 20 * time.Second, 100},
	{Creeping, 2, 100 * time.Second, 0},
	{Ordered, 2, 60 * time.Second, 2},
	{AllPaused, 2, 4 * time.Minute, 0},
	{StoreAway, 2, 4 * time.Minute, 0},
	{SilentHost, 1, 4 * time.Minute, 0}, // and six minutes more
	{SilentMost, 1, 4 * time.Minute, 0},
	{CapForAWhile, 3, 90 * time.Second, 20},
	{Hold, 1, 60 * time.Second, 0},
	{Reconfigured, 3, 90 * time.Second, 20},
	{SilentCallers, 2, 60 * time.Second, 0},
	{NoListing, 2, 100 * time.Second, 0},
}

// silence is how long a silent host is not heard at least: longer than a lease lasts.
const silence = pool.HostTTL + time.Minute

// Size is how large the fleets of a run are; the zero value lets each seed choose.
type Size struct{ Hosts, Replicas, Callers int }

// NewPlan draws a plan. Small fleets, so that everything is contended, unless a size is given.
func NewPlan(seed uint64, s Size) Plan {
	r := rand.New(rand.NewPCG(seed, 0x5851f42d4c957f2d))
	p := Plan{
		Seed: seed, Replicas: cmp.Or(s.Replicas, 1+r.IntN(4)), Hosts: cmp.Or(s.Hosts, 1+r.IntN(6)),
		Callers: cmp.Or(s.Callers, 10+r.IntN(50)), Active: time.Duration(60+r.IntN(120)) * time.Second,
		Learned: drawLearned(seed),
	}
	for range r.IntN(17) {
		p.Episodes = append(p.Episodes, p.draw(r))
	}
	slices.SortFunc(p.Episodes, func(a, b Episode) int { return cmp.Compare(a.At, b.At) })
	for i := range p.Episodes {
		p.Episodes[i].No = i + 1
	}
	p.stretch()
	return p
}

// stretch lets callers come for longer than a silence lasts that outlasts a lease.
func (p *Plan) stretch() {
	for i := range p.Episodes {
		e := &p.Episodes[i]
		if e.Kind == SilentHost || e.Kind == SilentMost {
			e.For += silence
			p.Active = max(p.Active, e.At+e.For+time.Minute)
		}
	}
}

func (p *Plan) draw(r *rand.Rand) Episode {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := r.IntN(total)
	for _, k := range kinds {
		if n -= k.weight; n >= 0 {
			continue
		}
		e := Episode{Kind: k.kind, At: time.Duration(r.Int64N(int64(p.Active))), Who: r.IntN(1 << 16)}
		if k.longest > 0 {
			e.For = time.Duration(r.Int64N(int64(k.longest)))
		}
		if k.arg > 0 {
			e.Arg = 1 + r.IntN(k.arg)
		}
		return e
	}
	panic("sim: weights do not add up")
}

// Faults counts the episodes that happen.
func (p Plan) Faults() int { return len(p.Episodes) - len(p.Without) }

func (p Plan) leaves(no int) bool { return slices.Contains(p.Without, no) }

// String is the plan for people.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d replicas, %d hosts, %d callers for %v\n", p.Seed, p.Replicas, p.Hosts, p.Callers, p.Active)
	if p.Learned > 0 {
		fmt.Fprintf(&b, "  sandboxes are learned to need %d thousandths of their size, and later twice that\n", p.Learned)
	}
	for _, e := range p.Episodes {
		if !p.leaves(e.No) {
			fmt.Fprintf(&b, "  fault %d: %s at %.1fs for %.1fs\n", e.No, e.Kind, e.At.Seconds(), e.For.Seconds())
		}
	}
	return b.String()
}
