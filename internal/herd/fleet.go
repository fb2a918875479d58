package herd

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// The times of every play.
const (
	oneWay     = 500 * time.Microsecond  // of a frame
	newsWithin = host.NewsEvery + oneWay // ours: what moved has been said, and heard, by then
	heartbeat  = 10 * time.Second        // the essay's
	polled     = 20 * time.Second        // E2B's
	forever    = time.Duration(1<<63 - 1)
)

// fleet is the hosts as they are, which no policy sees, and the count of what is done with them.
type fleet struct {
	clock
	rand     *rand.Rand
	replicas int
	slots    int // of each host
	ask      gate.Ask
	hosts    []machine
	numbers  map[string]int // host id -> its index
	turns    *turns         // nil: every process runs at once

	got     tally
	refused func(nth int) // may be nil
}

// machine is one host: what it holds, counted here, whatever a policy believes.
type machine struct {
	id   string
	held int
	full time.Duration // when it last had no room; -1: never yet
}

// tally is what came of the creates.
type tally struct {
	Admitted, Refused int
	calls, denied     int // questions to hosts, and those answered no
	over              int // what a host took beyond its slots
	wrong             int // refused although some host had room, and for so long that it would have said so
	unsaid            int // refused although some host had room, but had no time to say so
}

// create is one that was asked for.
type create struct {
	at    time.Duration // when it came
	life  time.Duration // from when its host takes it
	taken time.Duration // by its host
	nth   int
}

// policy is one way to find a host.
type policy interface {
	// come is a create that reaches a replica. What comes of it is told to the fleet.
	come(replica int, c *create)
}

func newFleet(hosts, slots, replicas int, ask *gate.Ask, seed uint64) *fleet {
	f := &fleet{
		rand: rand.New(rand.NewPCG(seed, 0x68657264)), replicas: replicas, slots: slots, ask: *ask,
		hosts: make([]machine, hosts), numbers: map[string]int{},
	}
	for i := range f.hosts {
		f.hosts[i] = machine{id: fmt.Sprintf("agent-%04d", i), full: -1}
		f.numbers[f.hosts[i].id] = i
	}
	return f
}

// hold takes a slot of a host.
func (f *fleet) hold(h int) {
	m := &f.hosts[h]
	m.held++
	if m.held > f.slots {
		f.got.over++
	}
}

// free gives it back.
func (f *fleet) free(h int) {
	m := &f.hosts[h]
	if m.held >= f.slots {
		m.full = f.now
	}
	m.held--
}

// answer is what a create comes to, at the instant at which its caller is told.
func (f *fleet) answer(c *create, yes bool) {
	if yes {
		f.got.Admitted++
		return
	}
	f.got.Refused++
	if f.refused != nil {
		f.refused(c.nth)
	}
	switch {
	case f.roomSince(c.at - newsWithin):
		f.got.wrong++
	case f.roomSince(c.at):
		f.got.unsaid++
	}
}

// roomSince says whether some host had room at every instant since then.
func (f *fleet) roomSince(then time.Duration) bool {
	for i := range f.hosts {
		if m := &f.hosts[i]; m.held < f.slots && m.full < then {
			return true
		}
	}
	return false
}

// offer asks a host that counts its slots and nothing else, as the peers' do, and has the answer
// brought back.
func (f *fleet) offer(h int, c *create, ended func(), answer func(yes bool)) {
	f.got.calls++
	f.after(oneWay, func() {
		yes := f.hosts[h].held < f.slots
		if !yes {
			f.got.denied++
		} else {
			f.hold(h)
			if c.life != forever {
				f.after(c.life, func() {
					f.free(h)
					ended()
				})
			}
		}
		f.after(oneWay, func() { answer(yes) })
	})
}

// most is how many the fullest host holds.
func (f *fleet) most() (n int) {
	for i := range f.hosts {
		n = max(n, f.hosts[i].held)
	}
	return n
}

// fewest is how many the emptiest holds.
func (f *fleet) fewest() int {
	n := f.slots
	for i := range f.hosts {
		n = min(n, f.hosts[i].held)
	}
	return n
}
