package host_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// burst is a host, and a kernel that kills when the memory of its machine is used up. Time goes
// by in milliseconds; samples come as the agent takes them.
type burst struct {
	*rig
	rand   *rand.Rand
	memory gate.Bytes
	other  gate.Bytes
	procs  []*proc // in order of their ids
	doomed map[string]host.Instant
	state  []string // those that keep state

	kernel  int // what the kernel killed
	evicted int

	headroom gate.Bytes
	line     host.Instant // when free memory fell below the line at which the valve shuts
	shut     host.Instant // when it did; zero: not yet
}

type proc struct {
	id                     string
	resident, until, perMS gate.Bytes
}

// newBurst fills a machine with what its arithmetic takes, to within the headroom: the worst
// that a bet can be lost from.
func newBurst(t *testing.T, seed uint64, reclaim host.Reclaim) *burst {
	cfg := config()
	cfg.MaxStarts, cfg.MaxWaitingStarts, cfg.Reclaim = 1000, 0, reclaim
	r := rand.New(rand.NewPCG(seed, seed))
	b := &burst{
		rig: newRig(t, cfg), rand: r, memory: gate.Bytes(4+r.IntN(28)) * gate.GiB,
		doomed: map[string]host.Instant{},
	}
	b.sample(true)
	for i := range 40 {
		id := fmt.Sprintf("s%02d", i)
		a := ask(b.memory.FloorMiB() / 16)
		a.Priority, a.Stateful = r.IntN(3), r.IntN(8) == 0
		if b.h.Step(0, host.Reserve{ID: id, Gen: 1, Ask: a, Until: time.Minute, Incarnation: incarnation}).Answer.Denial != "" {
			continue
		}
		b.h.Step(0, host.Redeem{ID: id, Epoch: 1})
		b.h.Step(0, host.Track{ID: id, Epoch: 1, Process: host.Process{Pid: 1}})
		if a.Stateful {
			b.state = append(b.state, id)
		}
		b.procs = append(b.procs, &proc{id: id, resident: a.Memory / 8})
	}
	b.now += time.Second
	b.sample(true)
	return b
}

func (b *burst) used() gate.Bytes {
	used := b.other
	for _, p := range b.procs {
		used += p.resident
	}
	return used
}

func (b *burst) sample(full bool) {
	ev := host.Sample{Full: full, Limits: []gate.Limit{{Name: "machine", Size: b.memory, Used: min(b.used(), b.memory)}}}
	if full {
		for _, p := range b.procs {
			ev.Sandboxes = append(ev.Sandboxes, host.Resident{ID: p.id, Bytes: p.resident, CPU: -1})
		}
	}
	fx := b.h.Step(b.now, ev)
	if err := b.h.CheckInvariants(); err != nil {
		b.t.Fatal(err)
	}
	for _, e := range fx.Evictions {
		if e.By == host.Ordered {
			b.doomed[e.ID] = b.now + time.Duration(1+b.rand.IntN(30))*time.Millisecond
		}
	}
	if b.shut == 0 && b.h.Intake() != host.IntakeOpen {
		b.shut = b.now
	}
	if fx.Measure && !full {
		b.sample(true)
	}
}

// force lets some grow, together as fast as the headroom is made for: a quarter of it between
// two samples and the end of whoever has to go.
func (b *burst) force() {
	b.headroom = b.h.View().Account.Headroom
	headroom := b.headroom
	var growing []*proc
	for _, p := range b.procs {
		if !slices.Contains(b.state, p.id) && b.rand.IntN(2) == 0 {
			growing = append(growing, p)
		}
	}
	perMS := headroom / 4 / 100
	b.other = max(b.memory-b.used()-headroom-headroom/8, 0)
	for _, p := range growing {
		p.perMS, p.until = perMS/gate.Bytes(len(growing)), b.memory/16
	}
	full := 0
	for ms := range 4000 {
		b.now += time.Millisecond
		b.pass()
		if ms%50 == 0 {
			full++
			b.sample(full%20 == 0)
		}
	}
}

// pass lets a millisecond go by.
func (b *burst) pass() {
	for _, p := range slices.Clone(b.procs) {
		p.resident = min(p.resident+p.perMS, max(p.until, p.resident))
		if at, ok := b.doomed[p.id]; ok && b.now >= at {
			b.evicted++
			b.ends(p, host.Done{By: host.Killed})
		}
	}
	used := b.used()
	if b.line == 0 && b.memory-used < b.headroom/2 {
		b.line = b.now
	}
	if used > b.memory { // the kernel takes the largest, whoever that is
		b.kernel++
		b.ends(slices.MaxFunc(b.procs, func(a, b *proc) int { return cmp.Compare(a.resident, b.resident) }), host.Done{OutOfMemory: true})
	}
}

func (b *burst) ends(p *proc, e host.Done) {
	b.procs = slices.DeleteFunc(b.procs, func(o *proc) bool { return o == p })
	delete(b.doomed, p.id)
	e.ID, e.Epoch = p.id, 1
	b.h.Step(b.now, e)
}

// Target 10: in a thousand forced bursts the kernel kills nobody while reclaim is on, those that
// keep state stay, and the intake is shut within two samples of the line. With reclaim off the
// same bursts end in the kernel's hands: so the check can fail.
func TestForcedBursts(t *testing.T) {
	seeds, kernel, evicted, late := uint64(1000), 0, 0, time.Duration(0)
	if raced { // which takes ten times as long, and sees no more of one goroutine
		seeds = 200
	}
	for seed := range seeds {
		b := newBurst(t, seed, host.ReclaimOn)
		kept := len(b.state)
		b.force()
		if b.kernel > 0 {
			t.Logf("seed %d: %d by the kernel, memory %s headroom %s, %d left, %d evicted", seed, b.kernel, b.memory, b.headroom, len(b.procs), b.evicted)
		}
		kernel, evicted = kernel+b.kernel, evicted+b.evicted
		for _, p := range b.procs {
			if slices.Contains(b.state, p.id) {
				kept--
			}
		}
		if kept != 0 {
			t.Errorf("seed %d: %d of those that keep state are gone", seed, kept)
		}
		if b.line != 0 && b.shut > b.line {
			late = max(late, b.shut-b.line)
		}
		if b.line != 0 && b.shut == 0 {
			t.Errorf("seed %d: the intake stayed open", seed)
		}
	}
	t.Logf("%d forced bursts: %d killed by the kernel, %d had to go, intake shut at most %v after the line", seeds, kernel, evicted, late)
	if kernel > 0 || uint64(evicted) < seeds || late > 100*time.Millisecond {
		t.Errorf("%d killed by the kernel, %d had to go, shut %v after the line", kernel, evicted, late)
	}
	for seed := range seeds / 20 {
		b := newBurst(t, seed, host.ReclaimOff)
		b.force()
		if b.kernel == 0 {
			t.Errorf("seed %d with reclaim off: the kernel killed nobody, so nothing was forced", seed)
		}
	}
}
