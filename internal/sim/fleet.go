package sim

import (
	"cmp"
	"fmt"
	"hash"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// The fleet's sizes. Small, so that everything is contended.
const (
	memory     = 4 * gate.GiB // of each host
	bootWithin = time.Minute
	poolCap    = 20
	quota      = 12
	callersFor = 3 * time.Minute
	quietFor   = 10 * time.Minute // longer than any promise lives
)

// Fleet is one simulated history.
type Fleet struct {
	*world
	faults       faults
	model        *pool.Model
	agents       []*agent
	byID         map[string]*agent
	replicas     []*replica
	incarnations map[string]int64
	seen         map[string]int64 // id -> highest epoch that ever booted
	admitted     int
	refused      int
	violations   []string
}

// Result is what came of a seed.
type Result struct {
	Seed       uint64
	Events     int64
	Admitted   int
	Refused    int
	Violations []string
	Digest     uint64
}

// Run plays one seed: replicas and agents under faults and callers for three minutes, then
// quiet, then the reckoning.
func Run(seed uint64, replicas, agents int) Result {
	f := newFleet(seed, replicas, agents)
	for len(f.violations) == 0 && f.step(callersFor) {
		f.check()
	}
	f.faults = faults{}
	for len(f.violations) == 0 && f.step(callersFor+quietFor) {
		f.check()
	}
	if len(f.violations) == 0 {
		f.reckon()
	}
	return Result{
		Seed: seed, Events: f.events, Admitted: f.admitted, Refused: f.refused,
		Violations: f.violations, Digest: f.digest.(hash.Hash64).Sum64(),
	}
}

func newFleet(seed uint64, replicas, agents int) *Fleet {
	f := &Fleet{
		world: newWorld(seed), model: pool.NewModel(), byID: map[string]*agent{},
		faults:       faults{lost: 3, doubled: 3, late: 1, store: 2, dead: 1},
		incarnations: map[string]int64{}, seen: map[string]int64{},
	}
	f.model.Configure(pool.Settings{
		Pools:        map[string]pool.Limits{"p": {Cap: poolCap, MaxWaiting: 30}},
		DefaultQuota: quota,
	})
	for range replicas {
		f.replicas = append(f.replicas, &replica{fleet: f, table: table.New(table.Options{}), last: map[string]host.Verdict{}})
	}
	for i := range agents {
		f.addAgent(fmt.Sprintf("h%d", i+1), i)
	}
	for i := range 40 {
		c := &caller{fleet: f, key: fmt.Sprintf("k%02d", i), tenant: fmt.Sprintf("t%d", i%3)}
		f.at(f.between(0, 10*time.Second), c.create)
	}
	f.at(10*time.Second, f.sweepStore)
	f.at(5*time.Second, f.reconcile)
	f.at(f.between(time.Second, 20*time.Second), f.killSomebody)
	return f
}

func (f *Fleet) addAgent(id string, i int) {
	f.incarnations[id] = f.model.Next()
	cfg := host.DefaultConfig(id, 2)
	if i == 0 {
		cfg.Mode = gate.Committed
	}
	a := &agent{
		fleet: f, cfg: cfg, host: host.New(cfg, f.incarnations[id]), up: true, booted: time.Duration(i+1) * time.Hour,
		disk: map[host.Name]host.Record{}, running: map[host.Ref]gate.Bytes{}, waiting: map[host.Ref]func(){},
	}
	f.agents, f.byID[id] = append(f.agents, a), a
	for _, r := range f.replicas {
		r.table.Register(table.Registration{Host: id, Mode: cfg.Mode, MaxAsk: memory})
	}
	f.at(0, a.sample)
	f.at(0, a.tick)
}

// transact carries out one transition of the store at one instant. Its answer may be a
// failure that was persisted, or one that was not.
func (f *Fleet) transact(do func(), then func(failed bool)) {
	f.at(f.between(100*time.Microsecond, 2*time.Millisecond), func() {
		f.model.Advance(f.storeTime())
		failed := f.chance(f.faults.store)
		if !failed || f.chance(50) {
			do()
		}
		f.at(f.between(50*time.Microsecond, time.Millisecond), func() { then(failed) })
	})
}

// storeTime is the store's own clock, which is nobody else's.
func (f *Fleet) storeTime() pool.Time { return pool.Time(1_700_000_000_000 + f.now.Milliseconds()) }

// claim checks the cap and the quota around a grant.
func (f *Fleet) claim(c pool.Claim) pool.Claimed {
	got := f.model.Claim(c)
	if got.Verdict != pool.Granted {
		return got
	}
	if busy, _ := f.holding(""); busy > poolCap {
		f.violate("a slot was granted above the cap: %d of %d", busy, poolCap)
	}
	if _, use := f.holding(c.Contents.Tenant); use > quota {
		f.violate("tenant %s holds %d of %d", c.Contents.Tenant, use, quota)
	}
	return got
}

// holding counts the slots held, in all and by a tenant.
func (f *Fleet) holding(tenant string) (busy, use int) {
	for _, r := range f.model.Rows() {
		if r.State.HoldsSlot() {
			busy++
			if r.Tenant == tenant {
				use++
			}
		}
	}
	return busy, use
}

// onlyOne proves that of one admission at most one sandbox runs, under the highest epoch.
func (f *Fleet) onlyOne(ref host.Ref) {
	if ref.Epoch <= f.seen[ref.ID] {
		f.violate("admission %s booted under epoch %d after %d", ref.ID, ref.Epoch, f.seen[ref.ID])
	}
	f.seen[ref.ID] = ref.Epoch
	n := 0
	for _, a := range f.agents {
		for other := range a.running {
			if other.ID == ref.ID {
				n++
			}
		}
	}
	if n > 1 {
		f.violate("%d sandboxes run of admission %s", n, ref.ID)
	}
}

func (f *Fleet) violate(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf("%v: ", f.now)+fmt.Sprintf(format, args...))
}

// check holds after every event.
func (f *Fleet) check() {
	if err := f.model.CheckInvariants(); err != nil {
		f.violate("store: %v", err)
	}
}

// reckon holds when everybody has gone home: idle means zero.
func (f *Fleet) reckon() {
	if busy, _ := f.holding(""); busy != 0 {
		f.violate("%d slots are held on an idle fleet: %+v", busy, f.held())
	}
	for _, a := range f.agents {
		v := a.host.View()
		if v.Account.Reserved != 0 || v.Reservations != 0 || len(v.Sandboxes) != 0 {
			f.violate("host %s is idle, and has %s reserved in %d, %d sandboxes", a.cfg.ID, v.Account.Reserved, v.Reservations, len(v.Sandboxes))
		}
		if ends := a.host.Unwritten(); len(ends) != 0 {
			f.violate("host %s still tells %d ends: %+v", a.cfg.ID, len(ends), ends[0])
		}
	}
}

func (f *Fleet) held() (rows []pool.Row) {
	for _, r := range f.model.Rows() {
		if r.State.HoldsSlot() {
			rows = append(rows, r)
		}
	}
	return rows
}

// sweepStore is the replicas' sweep.
func (f *Fleet) sweepStore() {
	f.transact(func() { f.model.Sweep() }, func(bool) {})
	f.at(10*time.Second, f.sweepStore)
}

// reconcile is the replicas' comparison of the store with each host: rows first, then the
// host's word, so that what it does not hold by then is over.
func (f *Fleet) reconcile() {
	r := f.replicas[f.rand.IntN(len(f.replicas))]
	for _, row := range f.model.Rows() {
		if a := f.byID[row.Host]; a != nil && a.up && row.State.OnHost() {
			f.settle(r, a, row)
		}
	}
	for _, a := range f.agents {
		for _, e := range a.host.Unwritten() {
			r.end(a, e)
		}
	}
	f.at(5*time.Second, f.reconcile)
}

func (f *Fleet) settle(r *replica, a *agent, row pool.Row) {
	reserved, running := a.host.Holds(row.ID, row.Epoch)
	switch {
	case !reserved && !running:
		r.end(a, host.End{ID: row.ID, Epoch: row.Epoch, How: host.Lapsed, Reason: "the host does not hold it any more"})
	case row.State == pool.Releasing:
		a.do(host.Release{ID: row.ID, Gen: row.Epoch}, func(host.Answer) {})
	case running && row.State == pool.Admitted:
		f.transact(func() { f.model.Track(row.ID, row.Epoch) }, func(bool) {})
	}
}

func (f *Fleet) killSomebody() {
	if f.now < callersFor {
		f.agents[f.rand.IntN(len(f.agents))].kill()
		f.at(f.between(5*time.Second, 40*time.Second), f.killSomebody)
	}
}

func sortedNames(disk map[host.Name]host.Record) []host.Name {
	return slices.SortedFunc(maps.Keys(disk), func(a, b host.Name) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Epoch, b.Epoch))
	})
}

// caller wants one key admitted, again and again.
type caller struct {
	fleet  *Fleet
	key    string
	tenant string
}

// create posts the key to any replica.
func (c *caller) create() {
	if c.fleet.now < callersFor {
		c.passage(false)
	}
}

func (c *caller) passage(attempt bool) {
	f := c.fleet
	mode := pool.Refuse
	if f.chance(50) {
		mode = pool.Queue
	}
	ask := gate.Ask{Class: "small", Memory: 512 * gate.MiB, Rule: gate.ReserveRule{Permille: 250, Floor: 64 * gate.MiB}}
	req := admission.Request{Ask: ask, Claim: pool.Claim{
		ID: "a-" + c.key, Consumer: "c", Key: c.key, Contents: pool.Contents{Tenant: c.tenant, Class: "small", MemoryMB: 512},
		Pool: "p", Mode: mode, MaxQueueAge: time.Minute, Attempt: attempt,
	}}
	f.replicas[f.rand.IntN(len(f.replicas))].passage(req, c.answered)
}

// answered does what callers do: boot, dawdle, change their mind, come back.
func (c *caller) answered(a admission.Answer) {
	f := c.fleet
	f.note("%s %d %s %d\n", c.key, a.Kind, a.Code, a.Row.Epoch)
	switch a.Kind {
	case admission.Yes:
		f.admitted++
		c.use(a.Row)
		f.at(f.between(time.Second, 90*time.Second), c.create)
	case admission.Wait:
		f.at(f.between(200*time.Millisecond, 4*time.Second), func() { c.passage(f.chance(80)) })
	default:
		f.refused++
		f.at(f.between(100*time.Millisecond, 5*time.Second), c.create)
	}
}

// use boots what was admitted, or lets it lapse, or gives it back.
func (c *caller) use(r pool.Row) {
	f, ref := c.fleet, host.Ref{ID: r.ID, Epoch: r.Epoch}
	if f.chance(20) {
		f.at(f.between(0, 30*time.Second), func() { c.leave(r.ID) })
	}
	if a := f.byID[r.Host]; a != nil && !f.chance(15) {
		resident := gate.FromMiB(20 + f.rand.Int64N(150))
		f.at(f.between(time.Millisecond, 5*time.Second), func() { a.redeem(ref, resident, f.between(time.Second, 40*time.Second)) })
	}
}

// leave drives the production departure.
func (c *caller) leave(id string) {
	f, d := c.fleet, admission.NewDeparture(id)
	var follow func(e admission.Effect)
	follow = func(e admission.Effect) {
		switch e.Do {
		case admission.Leave:
			var ev admission.Left
			f.transact(func() { ev.Row, ev.Found = f.model.Leave(e.ID); ev.Now = f.model.Now() }, func(failed bool) { ev.Failed = failed; follow(d.Step(ev)) })
		case admission.Vacate:
			dr := &driving{replica: f.replicas[0]}
			dr.ask(e.Host, host.Release{ID: e.ID, Gen: e.Gen}, func(a host.Answer, unknown bool) {
				follow(d.Step(admission.Vacated{Running: a.Running, Unknown: unknown}))
			})
		case admission.End:
			var ev admission.Ended
			f.transact(func() { f.model.End(e.ID, e.Gen, pool.Released, "released"); ev.Row, _ = f.model.ByID(e.ID) }, func(failed bool) { ev.Failed = failed; follow(d.Step(ev)) })
		}
	}
	follow(d.Begin())
}
