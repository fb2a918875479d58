package pool

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The same sequences in each run, as long as no flag says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "300", "rapid.steps": "150", "rapid.seed": "20261129", "rapid.nofailfile": "true"} {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// machine drives a model with random transitions.
type machine struct {
	m      *Model
	limits Settings
	ids    int
}

// After every step the rows are sound; a grant never happens at or above the cap or the
// quota in force, and passes no waiter that is there (design, 12: 2 and 7); when all have
// gone nothing is held (4).
func TestRandomTransitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &machine{m: NewModel()}
		x.m.Advance(start)
		x.configure(t)
		t.Repeat(map[string]func(*rapid.T){
			"claim": x.claim, "claim again": x.claim, "attempt": x.attempt, "attempt again": x.attempt, "settle": x.settle,
			"no room": x.noRoom, "regen": x.regen, "attend": x.attend, "move": x.move, "renew": x.renew, "track": x.track,
			"leave": x.leave, "end": x.end, "end again": x.end, "sweep": func(*rapid.T) { x.m.Sweep() }, "advance": x.advance,
			"configure": x.configure,
			"": func(t *rapid.T) {
				if err := x.m.CheckInvariants(); err != nil {
					t.Fatal(err)
				}
			},
		})
		x.mustServeNewcomers(t)
		x.mustIdleAtZero(t)
	})
}

func (x *machine) configure(t *rapid.T) {
	x.limits = Settings{Pools: map[string]Limits{}, DefaultQuota: rapid.SampledFrom([]int64{Unlimited, Unlimited, 1, 3}).Draw(t, "quota")}
	for _, name := range []string{"p", "q"} {
		x.limits.Pools[name] = Limits{Cap: rapid.SampledFrom([]int64{0, 1, 2, 3, Unlimited}).Draw(t, "cap"), MaxWaiting: rapid.Int64Range(0, 6).Draw(t, "line")}
	}
	x.m.Configure(x.limits)
}

func (x *machine) advance(t *rapid.T) {
	x.m.Advance(x.m.Now().Add(rapid.SampledFrom([]time.Duration{
		time.Millisecond, 500 * time.Millisecond, time.Second,
		2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute,
	}).Draw(t, "by")))
}

func (x *machine) claim(t *rapid.T)   { x.claimWith(t, false) }
func (x *machine) attempt(t *rapid.T) { x.claimWith(t, true) }

func (x *machine) claimWith(t *rapid.T, attempt bool) {
	x.ids++
	key := rapid.IntRange(0, 9).Draw(t, "key")
	c := Claim{
		ID: fmt.Sprintf("a%d", x.ids), Consumer: "c", Key: fmt.Sprint(key), Attempt: attempt, Pool: []string{"p", "p", "q"}[key%3],
		Contents:    Contents{Tenant: []string{"t1", "t2"}[key%2], Class: []string{"small", "large"}[key/2%2]},
		Mode:        rapid.SampledFrom([]Mode{Queue, Queue, Queue, Refuse}).Draw(t, "mode"),
		MaxQueueAge: rapid.SampledFrom([]time.Duration{5 * time.Second, 10 * time.Minute}).Draw(t, "age"),
		Present:     rapid.SampledFrom([]time.Duration{0, PresentFor}).Draw(t, "present"),
	}
	before, old, now := x.m.Rows(), Row{}, x.m.Now()
	if r, ok := x.m.Get(c.Consumer, c.Key); ok {
		old = r
	}
	got := x.m.Claim(c)
	if got.Verdict == Granted && old.State != Placing {
		x.judge(t, before, old, got, now)
	}
	if got.Verdict == PoolFull || got.Verdict == OverQuota || got.Verdict == QueueFull {
		if r, _ := x.m.Get(c.Consumer, c.Key); r != old {
			t.Fatalf("a refusal left %+v", r)
		}
	}
}

// judge looks at a grant with nothing but the rows before it.
func (x *machine) judge(t *rapid.T, before []Row, old Row, got Claimed, now Time) {
	limits, busy, use := x.limits.Pools[got.Row.Pool], int64(0), map[string]int64{}
	for _, r := range before {
		if r.State.HoldsSlot() {
			use[r.Tenant]++
			if r.Pool == got.Row.Pool {
				busy++
			}
		}
	}
	quota := func(tenant string) bool {
		return x.limits.DefaultQuota != Unlimited && use[tenant] >= x.limits.DefaultQuota
	}
	if limits.Cap != Unlimited && busy >= limits.Cap {
		t.Fatalf("granted at %d of a cap of %d", busy, limits.Cap)
	}
	if quota(got.Row.Tenant) {
		t.Fatalf("granted to a tenant that holds %d of %d", use[got.Row.Tenant], x.limits.DefaultQuota)
	}
	passed := int64(0)
	for _, w := range before {
		waits := w.State == Waiting && w.PresentUntil >= now && now.Since(w.QueuedAt) < w.MaxQueueAge && !quota(w.Tenant)
		behind := old.State == Waiting && old.Place < w.Place
		if waits && !behind && w.ID != old.ID && w.Pool == got.Row.Pool && w.Kind() == got.Row.Kind() {
			passed++
		}
	}
	if limits.Cap != Unlimited && passed > 0 && limits.Cap-busy <= passed {
		t.Fatalf("%s was granted one of %d slots before %d of its kind that are there", got.Row.Key, limits.Cap-busy, passed)
	}
}

// row draws an admission, most often in one of these states.
func (x *machine) row(t *rapid.T, states ...State) Row {
	var fitting []Row
	for _, r := range x.m.Rows() {
		for _, s := range states {
			if r.State == s {
				fitting = append(fitting, r)
			}
		}
	}
	if len(fitting) == 0 || rapid.IntRange(0, 9).Draw(t, "any") == 0 {
		fitting = append(x.m.Rows(), Row{ID: "nobody"})
	}
	return rapid.SampledFrom(fitting).Draw(t, "row")
}

// stale says whether to use a generation that is not the row's.
func stale(t *rapid.T, n int64) int64 {
	if rapid.IntRange(0, 5).Draw(t, "stale") == 0 {
		return n - 1
	}
	return n
}

func (x *machine) settle(t *rapid.T) {
	r := x.row(t, Placing)
	gen := stale(t, r.Gen)
	if _, ok := x.m.Settle(r.ID, gen, "h", time.Minute); ok != (r.State == Placing && gen == r.Gen) {
		t.Fatalf("settle of %+v at %d: %v", r, gen, ok)
	}
}

func (x *machine) noRoom(t *rapid.T) {
	r := x.row(t, Placing)
	x.m.NoRoom(r.ID, stale(t, r.Gen), rapid.Bool().Draw(t, "hostless"), rapid.SampledFrom([]time.Duration{0, PresentFor}).Draw(t, "present"))
}

func (x *machine) regen(t *rapid.T) { r := x.row(t, Placing); x.m.Regen(r.ID, stale(t, r.Gen)) }
func (x *machine) renew(t *rapid.T) {
	r := x.row(t, Admitted)
	x.m.Renew(r.ID, stale(t, r.Epoch), time.Minute)
}

func (x *machine) leave(t *rapid.T) {
	r := x.row(t, Waiting, Running, Placing)
	x.m.Leave(r.ID, rapid.SampledFrom([]Passage{{}, r.Passage(), {stale(t, r.Gen), r.QueuedAt}}).Draw(t, "passage"))
}

func (x *machine) track(t *rapid.T) {
	r := x.row(t, Admitted, Releasing)
	x.m.Track(r.ID, stale(t, r.Epoch))
}

func (x *machine) attend(t *rapid.T) {
	x.m.Attend(x.row(t, Waiting).ID, rapid.SampledFrom([]time.Duration{0, PresentFor}).Draw(t, "present"))
}

func (x *machine) move(t *rapid.T) {
	r := x.row(t, Admitted)
	x.m.Move(r.ID, stale(t, r.Epoch), rapid.Bool().Draw(t, "acknowledged"))
}

// end checks trap 8: whatever is said under an old epoch, or of an ended row, changes nothing.
func (x *machine) end(t *rapid.T) {
	r := x.row(t, Admitted, Running, Releasing)
	epoch := stale(t, r.Epoch)
	written, _ := x.m.End(r.ID, epoch, rapid.SampledFrom([]State{Released, Evicted, Lost}).Draw(t, "to"), "said")
	if after, _ := x.m.ByID(r.ID); written != (r.State.OnHost() && epoch == r.Epoch) || (!written && after != r && r.ID != "nobody") {
		t.Fatalf("end of %+v at %d: %v, now %+v", r, epoch, written, after)
	}
}

// mustServeNewcomers: once nobody is there and the graces are over, a free slot is for whoever comes.
func (x *machine) mustServeNewcomers(t *rapid.T) {
	x.m.Advance(x.m.Now().Add(HostlessFor + Grace))
	for _, l := range x.m.Lines() {
		c := x.m.Claim(Claim{ID: "new" + l.Name, Consumer: "new", Key: l.Name, Pool: l.Name, Mode: Refuse, Contents: Contents{Tenant: "new in " + l.Name}})
		if free := l.Limits.Cap == Unlimited || l.Busy < l.Limits.Cap; free != (c.Verdict == Granted) {
			t.Fatalf("pool %+v, all absent: %v", l, c.Verdict)
		}
	}
}

// mustIdleAtZero ends everything on its own path, and looks for what is left.
func (x *machine) mustIdleAtZero(t *rapid.T) {
	for _, r := range x.m.Rows() {
		x.m.Leave(r.ID, r.Passage())
		x.m.End(r.ID, r.Epoch, Released, "gone")
		x.m.End(r.ID, r.Epoch, Released, "gone")
	}
	for _, l := range x.m.Lines() {
		if l.Busy != 0 || l.Waiting != 0 {
			t.Fatalf("idle, and %+v", l)
		}
	}
	x.m.Advance(x.m.Now().Add(KeepEnded))
	x.m.Sweep()
	if rows := x.m.Rows(); len(rows) != 0 {
		t.Fatalf("a day later %d rows are left", len(rows))
	}
}
