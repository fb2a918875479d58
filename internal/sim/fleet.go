// Package sim plays a fleet in virtual time and tries to break it. The production core
// runs in it: package host for the agents; admission, table, pool.Model, ticket and hint
// for the replicas and their store; backoff for the callers. It is another shell around
// the same code, with no goroutine, no wall clock and no order of maps: one seed, one history.
//
// Frames are lost, doubled, late and reordered; replicas and agents stand still or die;
// the store fails before, or after, it persisted; links are cut, wholly or one way. The
// invariants are checked as it happens, and when callers have gone quiet every gauge must be zero.
package sim

import (
	"fmt"
	"io"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

const (
	memory      = 4 * gate.GiB     // of each host, unless it is said
	usualLife   = 40 * time.Second // of a sandbox
	longestLife = 150 * time.Second
	longestSlot = 90 * time.Second // without a host, unless it is heard of
	// quietFor is how long a fleet without callers may take to hold nothing: the last call
	// and the last life, one time to live, and the rounds of reconciliation.
	quietFor = callWithin + longestLife + longestSlot + bootWithin + 4*tidyEvery
)

// Fleet is one history.
type Fleet struct {
	world
	plan      Plan
	net       network
	store     store
	ring      ticket.Keyring
	agents    []*agent
	byID      map[string]*agent
	replicas  []*replica
	substrate *substrate
	operator  operator
	callers   []*caller
	classes   []class
	needs     map[gate.Mode][]gate.Bytes // of the classes
	hungry    bool                       // sandboxes hold four times as much
	stalled   map[string][]func()        // id -> writes that hang
	jumped    bool                       // the store's clock was set forward
	mute      bool                       // callers of the pool without hosts are not heard
	rough     bool                       // now and then somebody does what nobody should
	book      book
	orders    orders
	result    Result
}

// Result is what came of a seed.
type Result struct {
	Seed       uint64
	Events     int64
	Faults     int
	Admitted   int
	Refused    int
	Boots      int
	Evictions  int
	Violations []Violation
	Digest     uint64
}

// Play plays a plan to its end, or to the first violation. The story, if anybody reads it,
// gets a line for each thing that matters.
func Play(p Plan, story io.Writer) Result {
	f := newFleet(p, story)
	for len(f.result.Violations) == 0 && f.step(p.Active) {
	}
	f.calm()
	// A store whose clock was set back stands still until its machine has caught up.
	behind := time.Duration(f.model().Now()-f.store.time()) * time.Millisecond
	for len(f.result.Violations) == 0 && f.step(p.Active+quietFor+max(behind, 0)) {
	}
	if len(f.result.Violations) == 0 {
		f.reckon()
	}
	f.result.Seed, f.result.Events, f.result.Faults, f.result.Digest = p.Seed, f.events, p.Faults(), f.digest
	return f.result
}

func newFleet(p Plan, story io.Writer) *Fleet {
	f := emptyFleet(p.Seed, story)
	f.plan, f.rough = p, true
	f.net.late = 1
	f.model().Advance(f.store.time())
	f.operator.base = f.drawLimits()
	f.apply()
	f.know(classes()...)
	f.addSubstrate(substrata)
	for i := range p.Hosts {
		f.addAgent(i)
	}
	for range p.Replicas {
		f.addReplica()
	}
	for i := range p.Callers {
		f.addCaller(fmt.Sprintf("k%03d", i), f.rand.IntN(f.tenants()), false, f.between(0, 10*time.Second))
	}
	for _, e := range p.Episodes {
		if !p.leaves(e.No) {
			f.after(e.At, func() { f.begin(e) })
		}
	}
	return f
}

// emptyFleet has a store without limits, and nobody who could ask it.
func emptyFleet(seed uint64, story io.Writer) *Fleet {
	f := &Fleet{world: newWorld(seed), net: newNetwork(), byID: map[string]*agent{}, book: newBook(), ring: firstKeys(), stalled: map[string][]func(){}}
	f.world.story = story
	f.store = store{fleet: f, model: pool.NewModel(), loads: newLoads()}
	f.needs = map[gate.Mode][]gate.Bytes{}
	return f
}

// know adds kinds of sandboxes; for the needs of each the onlooker watches every host.
func (f *Fleet) know(cs ...class) {
	for _, c := range cs {
		f.classes = append(f.classes, c)
		for _, m := range []gate.Mode{gate.WorkingSet, gate.Committed} {
			for _, learned := range f.plan.lessons(c.ask) {
				c.ask.Rule.Learned = learned
				f.needs[m] = append(f.needs[m], needOf(c.ask, m))
			}
		}
	}
}

func (f *Fleet) addReplica() *replica {
	r := &replica{fleet: f, index: len(f.replicas), keys: f.ring}
	f.replicas = append(f.replicas, r)
	r.start()
	return r
}

// tenants is how many share the fleet: so many that quotas and slots are both contended.
func (f *Fleet) tenants() int { return max(4, f.plan.Hosts) }

func (f *Fleet) model() *pool.Model { return f.store.model }

// wall is the callers' clock, which nothing but their own patience is judged by.
func (f *Fleet) wall() time.Time { return time.Unix(1_700_000_000, 0).Add(f.now) }

func (f *Fleet) addAgent(i int) {
	id := fmt.Sprintf("h%d", i+1)
	cfg := host.DefaultConfig(id, 2)
	cfg.MaxWaitingStarts = 1 << 10 // memory is what refuses here, nearly everywhere
	if f.chance(20) {
		cfg.MaxStarts, cfg.MaxWaitingStarts = 2, 2
	}
	if f.chance(25) {
		cfg.Mode = gate.Committed
	} else {
		cfg.Reclaim = host.ReclaimOn
	}
	f.install(cfg, memory)
}

// install starts an agent on a machine of so much memory.
func (f *Fleet) install(cfg host.Config, size gate.Bytes) *agent {
	id := cfg.ID
	a := &agent{
		fleet: f, index: len(f.agents), id: id, cfg: cfg, memory: size, up: true, incarnation: f.model().Next(),
		booted: f.between(0, 100*time.Hour), drift: f.between(-200*time.Microsecond, 200*time.Microsecond),
		disk: map[host.Name]host.Record{}, running: map[host.Ref]*process{}, waiting: map[host.Ref]func(){},
		roomy: map[gate.Bytes]roomSince{}, witness: newWitness(), booters: map[host.Ref]func(){}, copies: map[string]host.Event{},
	}
	a.host = host.New(cfg, a.incarnation)
	a.keys, _ = f.ring.Audience(id)
	f.agents, f.byID[id] = append(f.agents, a), a
	f.model().Advance(f.store.time())
	f.lease(id)
	f.after(f.between(0, 100*time.Millisecond), a.sampleOften)
	f.after(f.between(0, 100*time.Millisecond), a.tickOften)
	return a
}

func (f *Fleet) addCaller(key string, tenant int, impatient bool, delay time.Duration) {
	c := &caller{
		fleet: f, key: key, consumer: []string{plain, plain, batch, batch, person}[f.rand.IntN(5)],
		tenant: fmt.Sprintf("t%d", tenant), class: f.classes[f.rand.IntN(len(f.classes))], impatient: impatient,
	}
	f.callers = append(f.callers, c)
	f.after(delay, c.create)
}

func firstKeys() ticket.Keyring {
	ring, err := ticket.NewKeyring(root("k1", ticket.Signing))
	if err != nil {
		panic(err)
	}
	return ring
}

func root(id string, s ticket.State) ticket.Root {
	secret := make([]byte, 32)
	copy(secret, id)
	r, err := ticket.NewRoot(id, s, secret)
	if err != nil {
		panic(err)
	}
	return r
}
