package sim

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// begin lets a fault happen, and end after its time.
func (f *Fleet) begin(e Episode) {
	f.fact(factFault, string(e.Kind), int64(e.No))
	f.tell("fault %d: %s for %.1fs", e.No, e.Kind, e.For.Seconds())
	a := f.agents[e.Who%len(f.agents)]
	r := f.replicas[e.Who%len(f.replicas)]
	if end := f.disturb(e, a, r); end != nil {
		f.after(e.For, func() {
			f.tell("fault %d ends", e.No)
			end()
		})
	}
}

// disturb starts a fault and returns what ends it; nil when it ends by itself.
func (f *Fleet) disturb(e Episode, a *agent, r *replica) func() {
	switch e.Kind {
	case PauseRep:
		f.pause(&r.doze, e.For)
	case KillRep:
		r.kill(e.For)
	case PauseHost:
		f.pause(&a.doze, e.For)
	case KillHost:
		a.kill(e.For, noLoss)
	case WipeHost:
		takes := lostAll
		if e.Who&0x100 != 0 {
			takes = lostLedger
		}
		a.kill(e.For, takes)
	case ClockJump:
		f.jump(e)
	case Storm:
		f.storm(e)
	case Cohort:
		f.cohort(e)
	case RotateKeys:
		f.rotate(e)
	case CapForAWhile:
		f.capForAWhile(e)
	case AllPaused:
		for _, each := range f.replicas {
			f.pause(&each.doze, e.For)
		}
	default:
		return f.degrade(e, a, r)
	}
	return nil
}

// degrade is the faults that are a state of the world for a while.
func (f *Fleet) degrade(e Episode, a *agent, r *replica) func() {
	switch e.Kind {
	case Lossy:
		was := f.net
		f.net.lost, f.net.doubled, f.net.late = e.Arg, e.Arg, e.Arg/4
		return func() { f.net.lost, f.net.doubled, f.net.late = was.lost, was.doubled, was.late }
	case BadStore:
		f.store.broken = e.Arg
		return func() { f.store.broken = 0 }
	case Partition, Isolated:
		return f.cutOff(e, a, r)
	case HalfOpen:
		l := link{r.index, a.index}
		f.net.deaf[l] = true
		return func() { delete(f.net.deaf, l) }
	case Frozen:
		f.net.frozen[a.index] = true
		return func() { delete(f.net.frozen, a.index) }
	case Behaviour:
		f.hungry = true
		return func() { f.hungry = false }
	case StoreAway:
		f.store.away = true
		return func() { f.store.away = false }
	case LowerCap:
		return f.lowerCap(e)
	case Reconfigured:
		return f.reconfigure(e)
	case Hold:
		return f.hold(e)
	case SilentHost, SilentMost:
		return f.silence(e)
	case SilentCallers:
		f.mute = true
		return func() { f.mute = false }
	case NoListing:
		f.substrate.away = true
		return func() { f.substrate.away = false }
	case Ordered:
		order := host.IntakeCordoned + host.Intake(e.Arg%2)
		a.soon = func() { a.order(order) }
		return func() {
			a.soon = nil
			a.order(host.IntakeOpen)
		}
	case Creeping:
		return f.creep(a)
	case OutOfMemory:
		a.other = a.memory.Permille(int64(e.Arg) * 9)
		return func() { a.other = 0 }
	}
	panic("sim: nobody knows the fault " + string(e.Kind))
}

// creep lets something else take a host's memory: at first so much that its valve gets over
// it, then the rest little by little.
func (f *Fleet) creep(a *agent) func() {
	began, ended := f.now, false
	var more func()
	more = func() {
		left := 300 * gate.MiB
		if t := f.now - began; t > 40*time.Second {
			left -= gate.Bytes(10*(t-40*time.Second)/time.Second) * gate.MiB
		}
		if ended {
			return
		}
		a.other = max(a.memory-a.resident-left, 0)
		f.after(time.Second, more)
	}
	more()
	return func() { ended, a.other = true, 0 }
}

func (f *Fleet) cutOff(e Episode, a *agent, r *replica) func() {
	var cut []link
	for _, other := range f.replicas {
		for _, at := range f.agents {
			if (e.Kind == Partition && at == a) || (e.Kind == Isolated && other == r) {
				l := link{other.index, at.index}
				f.net.cut[l] = true
				cut = append(cut, l)
			}
		}
	}
	return func() {
		for _, l := range cut {
			delete(f.net.cut, l)
		}
	}
}

// silence takes hosts away for longer than a lease lasts: cut off, or standing still.
func (f *Fleet) silence(e Episode) func() {
	n := 1
	if e.Kind == SilentMost {
		n = len(f.agents)/2 + 1
	}
	var undo []func()
	for i := range n {
		a := f.agents[(e.Who+i)%len(f.agents)]
		for _, ref := range sortedRefs(a.running) {
			f.perhapsLeave(ref.ID, 30, lease)
		}
		if (e.Who/7+i)%2 == 0 {
			f.pause(&a.doze, e.For)
		} else {
			undo = append(undo, f.cutOff(Episode{Kind: Partition}, a, nil))
		}
	}
	return func() {
		for _, heal := range undo {
			heal()
		}
	}
}

// jump sets the clock of the store's machine. Backwards it must go unnoticed, since the
// store never lets its own time step back.
func (f *Fleet) jump(e Episode) {
	by := time.Duration(e.Arg) * time.Second
	if e.Who%2 == 0 {
		by = -by
	}
	f.store.ahead += by
	f.jumped = f.jumped || by > 0
}

// storm is callers without any patience.
func (f *Fleet) storm(e Episode) {
	for i := range e.Arg {
		f.addCaller(fmt.Sprintf("s%d-%02d", e.No, i), i%f.tenants(), true, f.between(0, time.Second))
		f.callers[len(f.callers)-1].until = f.now + e.For
	}
}

// cohort is one tenant that wants everything at once.
func (f *Fleet) cohort(e Episode) {
	for i := range e.Arg {
		f.addCaller(fmt.Sprintf("c%d-%02d", e.No, i), e.No%f.tenants(), false, 0)
	}
	for _, c := range f.callers[len(f.callers)-e.Arg:] {
		c.once = true
	}
}

// rotate brings a new key in: verified everywhere, then signed with, then the old one goes.
// No boot may be refused for it.
func (f *Fleet) rotate(e Episode) {
	old, id := f.ring.Roots()[0].ID(), fmt.Sprintf("k%d", e.No+1)
	ring, err := f.ring.Add(root(id, ticket.VerifyOnly), time.Time{})
	if err != nil {
		return // two rotations at once: the second comes to nothing, as it would for an operator
	}
	f.ring = ring
	f.spread()
	f.after(time.Second, func() {
		if f.ring, err = f.ring.Sign(id, time.Time{}); err != nil {
			panic(err)
		}
		f.spread()
		f.sign()
	})
	f.after(2*bootWithin, func() {
		if f.ring, err = f.ring.Drop(old); err == nil {
			f.spread()
			f.sign()
		}
	})
}

// spread gives each host its own keys of the ring.
func (f *Fleet) spread() {
	for _, a := range f.agents {
		a.keys, _ = f.ring.Audience(a.id)
	}
	if s := f.substrate; s != nil {
		s.keys, _ = f.ring.Audience(ticket.ForSubstrate(s.name))
	}
}

// sign has the replicas mint with the ring.
func (f *Fleet) sign() {
	for _, r := range f.replicas {
		r.keys = f.ring
	}
}

// calm ends every fault: from here on all must come to rest.
func (f *Fleet) calm() {
	f.net = newNetwork()
	f.net.lost, f.net.doubled = 0, 0
	f.store.broken, f.store.away = 0, false
	f.hungry, f.mute = false, false
	if f.substrate != nil {
		f.substrate.away = false
	}
	f.relent()
	for _, a := range f.agents {
		a.doze.until, a.other = 0, 0
		a.soon = nil
		f.goOn(&a.doze)
		a.order(host.IntakeOpen)
	}
	for _, r := range f.replicas {
		r.doze.until = 0
		f.goOn(&r.doze)
	}
}
