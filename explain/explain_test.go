package explain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/explain"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

func ask(memory gate.Bytes) gate.Ask {
	return gate.Ask{Class: "small", Memory: memory, Rule: gate.DefaultReserveRule()}
}

// noRoom is a refusal of an ask of 4 GiB by two hosts, as in the package's comment.
func noRoom() explain.Facts {
	return explain.Facts{
		Code: api.NoCapacity, Detail: "needs 1024 MiB; no_room: h-17, h-3", Ask: ask(4 * gate.GiB),
		Request: api.AdmissionRequest{Key: "k", Class: "small"}, Bounds: explain.Bounds{LeastMemoryMB: 128, MostMemoryMB: 8192},
		Hosts: 2, Excluded: []explain.Exclusion{{Reason: "no_room", Count: 2, Hosts: []string{"h-17", "h-3"}}},
		Near: []table.Room{
			{Host: "h-3", Why: table.NoRoom, Mode: gate.Committed, Admittable: 900 * gate.MiB, Need: 4 * gate.GiB},
			{Host: "h-17", Why: table.NoRoom, Admittable: 812 * gate.MiB, Need: gate.GiB},
		},
	}
}

// find returns the first change of a kind.
func find(e explain.Explanation, k explain.Kind) (explain.Change, bool) {
	for _, c := range e.Changes {
		if c.Kind == k {
			return c, true
		}
	}
	return explain.Change{}, false
}

// TestNearestMiss: the host that lacks the least is named, not the one with the most room; the
// smaller ask is what that arithmetic takes.
func TestNearestMiss(t *testing.T) {
	f := noRoom()
	e := explain.Of(&f)
	if e.Nearest != "h-17 lacks 212 MiB of 1,024" {
		t.Errorf("nearest: %q", e.Nearest)
	}
	if want := "the fleet says not now (no_capacity): needs 1024 MiB; no_room: h-17, h-3"; e.Line != want {
		t.Errorf("line: %q, want %q", e.Line, want)
	}
	if c, _ := find(e, explain.Smaller); c.To != 3248 || c.Patch != `{"memory_mb":3248}` || !strings.HasPrefix(c.Why, "h-17 ") {
		t.Errorf("smaller: %+v", c)
	}
	f.Near[1].Dims = []table.DimRoom{{Name: "gpus", Have: 0, Need: 1}}
	e = explain.Of(&f)
	if e.Nearest != "h-17 lacks 212 MiB of 1,024 and 1 gpus of 1" {
		t.Errorf("nearest: %q", e.Nearest)
	}
	if c, _ := find(e, explain.Smaller); c.To != 900 { // on the committed host, which lacks memory alone
		t.Errorf("smaller: %+v", c)
	}
	f.Bounds.MostMemoryMB = 0
	if c, ok := find(explain.Of(&f), explain.Smaller); ok {
		t.Errorf("a class that is not sized by memory: %+v", c)
	}
}

// TestSmallerFits: the smaller ask fits by the gate's own arithmetic, and one MiB more does not,
// whatever the rule of the reserve.
func TestSmallerFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := noRoom()
		f.Ask = gate.Ask{
			Memory: gate.FromMiB(rapid.Int64Range(2, 16384).Draw(t, "memory")), Stateful: rapid.Bool().Draw(t, "stateful"),
			Rule: gate.ReserveRule{
				Permille: rapid.Int64Range(0, 1000).Draw(t, "permille"), Floor: gate.FromMiB(rapid.Int64Range(0, 2048).Draw(t, "floor")),
				Learned: gate.FromMiB(rapid.SampledFrom([]int64{0, 0, 700, 3000}).Draw(t, "learned")),
			},
		}
		f.Bounds = explain.Bounds{LeastMemoryMB: rapid.Int64Range(1, 2048).Draw(t, "least"), MostMemoryMB: 16384}
		mode := rapid.SampledFrom([]gate.Mode{gate.WorkingSet, gate.Committed}).Draw(t, "mode")
		has := gate.FromMiB(rapid.Int64Range(0, 16384).Draw(t, "has"))
		need := gate.Need(f.Ask, mode)
		if has >= need {
			return
		}
		f.Near = []table.Room{{Host: "h", Why: table.NoRoom, Mode: mode, Admittable: has, Need: need}}
		fits := func(mb int64) bool {
			smaller := f.Ask
			smaller.Memory = gate.FromMiB(mb)
			return gate.Need(smaller, mode) <= has
		}
		c, ok := find(explain.Of(&f), explain.Smaller)
		if !ok {
			if f.Bounds.LeastMemoryMB < f.Ask.Memory.CeilMiB() && fits(f.Bounds.LeastMemoryMB) {
				t.Fatal("the least of its class fits, and is not named")
			}
			return
		}
		if !fits(c.To) || fits(c.To+1) || c.To < f.Bounds.LeastMemoryMB {
			t.Fatalf("%d of %d MiB, least %d", c.To, f.Ask.Memory.CeilMiB(), f.Bounds.LeastMemoryMB)
		}
	})
}

// full is a pool of four slots that are taken, with one waiter ahead.
func full() explain.Facts {
	return explain.Facts{
		Code: api.PoolFull, Detail: "pool ci has 4 of 4 slots taken, 1 waiting", Tenant: "acme", Hosts: 1, RetryAfter: 41_300 * time.Millisecond,
		Request: api.AdmissionRequest{Key: "k", Class: "small"},
		Pool: explain.Pool{Name: "ci", Configured: 4, Standing: pool.Standing{
			Cap: 4, Busy: 4, InLine: 1, Position: 2, QuotaLimit: pool.Unlimited, Short: 2,
		}},
	}
}

// TestPoolChanges: which limit is in the way decides what has to be raised, and all that is in
// the way is raised by one command.
func TestPoolChanges(t *testing.T) {
	commands := func(change func(*explain.Facts)) (out []string) {
		f := full()
		change(&f)
		for _, c := range explain.Of(&f).Changes {
			if c.Command != "" {
				out = append(out, c.Command)
			}
		}
		return out
	}
	for _, c := range []struct {
		about  string
		change func(*explain.Facts)
		want   string
	}{
		{"its cap", func(*explain.Facts) {}, `plimsoll pool set ci --cap 6 --for 1h --reason "room for k"`},
		{"an operator's word", func(f *explain.Facts) {
			f.Pool.Cap, f.Pool.Configured = 2, 8
			f.Pool.Override = pool.Override{Cap: 2, Since: 1, By: "ops", Reason: "throttled"}
		}, `plimsoll pool resume ci --reason "room for k" | plimsoll pool set ci --cap 4 --for 1h --reason "room for k"`},
		{"an operator's word that is not all", func(f *explain.Facts) {
			f.Pool.Cap, f.Pool.Configured = 3, 4
			f.Pool.Override = pool.Override{Cap: 3, Since: 1, By: "ops", Reason: "throttled"}
		}, `plimsoll pool set ci --cap 5 --for 1h --reason "room for k"`},
		{"the ceiling", func(f *explain.Facts) { f.Pool.Ceiling, f.Pool.Caps = 10, 9 }, `plimsoll config set ceiling=11 pools.ci.cap=6`},
		{"its share", func(f *explain.Facts) {
			f.Pool.Share = pool.ShareStanding{Share: pool.Share{Consumer: "bot", Max: 2}, Held: 2}
			f.Pool.Short, f.Pool.ShareShort, f.Pool.ShareFull = 0, 1, true
		}, `plimsoll config set pools.ci.shares.bot.max=3`},
		{"its share and the cap", func(f *explain.Facts) {
			f.Pool.Share = pool.ShareStanding{Share: pool.Share{Priority: 7, Max: 2}, Held: 2}
			f.Pool.ShareShort, f.Pool.ShareFull = 1, true
		}, `plimsoll config set pools.ci.shares.7.max=3 pools.ci.cap=6`},
		{"the quota and the cap", func(f *explain.Facts) {
			f.Code, f.Pool.QuotaLimit, f.Pool.QuotaUse, f.Pool.QuotaAhead = api.TenantOverQuota, 3, 3, 1
		}, `plimsoll config set quotas.acme=5 pools.ci.cap=6`},
		{"nobody counted", func(f *explain.Facts) { f.Pool.Standing = pool.Standing{} }, ``},
	} {
		if got := strings.Join(commands(c.change), " | "); got != c.want {
			t.Errorf("%s: %q, want %q", c.about, got, c.want)
		}
	}
	f := full()
	if c, ok := find(explain.Of(&f), explain.Wait); !ok || !strings.HasSuffix(c.Why, "in about 41 s") || c.To != 41_300 {
		t.Errorf("%+v", c)
	}
}

// TestEveryCode: whatever the code, and with nothing known beside it, there is a line that says
// whose no it is, and at least one change with a reason; what it names for the request is JSON.
func TestEveryCode(t *testing.T) {
	for _, m := range api.Table() {
		f := explain.Facts{Code: m.Code}
		e := explain.Of(&f)
		if !strings.Contains(e.Line, "("+string(m.Code)+")") || !strings.Contains(e.Line, " says ") {
			t.Errorf("%s: %q", m.Code, e.Line)
		}
		if len(e.Changes) == 0 {
			t.Errorf("%s: nothing would change it", m.Code)
		}
		for _, c := range e.Changes {
			if c.Why == "" || c.Who == "" || c.Patch != "" && !json.Valid([]byte(c.Patch)) {
				t.Errorf("%s: %+v", m.Code, c)
			}
		}
	}
}

// TestNevers: the field that a refusal names is what changes.
func TestNevers(t *testing.T) {
	mb, cpu := int64(9999), 64.0
	for _, c := range []struct {
		f     explain.Facts
		patch string
	}{
		{explain.Facts{Code: api.UnknownClass, Request: api.AdmissionRequest{Class: "smal"}, Known: []string{"large", "small"}}, `{"class":"small"}`},
		{explain.Facts{Code: api.TooLarge, Detail: "memory_mb: 9999 is outside", Request: api.AdmissionRequest{MemoryMB: &mb}, Bounds: explain.Bounds{LeastMemoryMB: 128, MostMemoryMB: 1024}}, `{"memory_mb":1024}`},
		{explain.Facts{Code: api.TooLarge, Detail: "cpu: 64 is outside", Request: api.AdmissionRequest{CPU: &cpu}, Bounds: explain.Bounds{LeastCPU: 250, MostCPU: 1500}}, `{"cpu":1.5}`},
		{explain.Facts{Code: api.InvalidRequest, Detail: "max_queue_age_ms: only in mode queue"}, `{"max_queue_age_ms":null}`},
		{explain.Facts{Code: api.InvalidRequest, Detail: "labels.zone: class small demands a"}, `{"labels":{"zone":null}}`},
		{explain.Facts{Code: api.InvalidRequest, Detail: "key: write 1 to 128 of", Request: api.AdmissionRequest{Key: "a b/ü"}}, `{"key":"a-b--"}`},
		{explain.Facts{Code: api.InvalidRequest, Detail: "tenant: consumer ci has several; name one of them", Tenants: []string{"acme", "beta"}}, `{"tenant":"acme"}`},
		{explain.Facts{Code: api.Forbidden, Detail: "host: consumer ci may not pin hosts", Consumer: "ci"}, `{"host":null}`},
		{explain.Facts{Code: api.KeyConflict, Request: api.AdmissionRequest{Key: "k"}}, `{"key":"k-2"}`},
	} {
		if e := explain.Of(&c.f); e.Changes[0].Patch != c.patch {
			t.Errorf("%s %s: %+v, want %s", c.f.Code, c.f.Detail, e.Changes, c.patch)
		}
	}
	f := explain.Facts{Code: api.Forbidden, Detail: "tenant: consumer ci may not ask for \"beta\"", Consumer: "ci", Request: api.AdmissionRequest{Tenant: "beta"}}
	if c, _ := find(explain.Of(&f), explain.Permission); c.Command != "plimsoll config set consumers.ci.tenants=ci,beta" {
		t.Errorf("%+v", c)
	}
	f = explain.Facts{Code: api.Forbidden, Detail: "consumer p lacks the role consumer", Consumer: "p", Roles: []string{"substrate"}}
	if c, _ := find(explain.Of(&f), explain.Permission); c.Command != "plimsoll config set consumers.p.roles=substrate,consumer" {
		t.Errorf("%+v", c)
	}
}
