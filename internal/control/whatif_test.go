package control_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

func (r *rig) rows() []pool.Row {
	r.t.Helper()
	rows, err := r.memory.List(r.t.Context(), control.Filter{})
	r.must(err)
	return rows
}

func (r *rig) whatIf(class string, count int64, change ...func(*api.WhatIfRequest)) api.WhatIf {
	r.t.Helper()
	q := api.WhatIfRequest{Class: class, Count: count, Tenant: "alice"}
	for _, c := range change {
		c(&q)
	}
	before := fmt.Sprint(r.rows())
	asked := 0
	for _, h := range r.hosts {
		asked += h.calls("Reserve") + h.calls("Verdict")
	}
	out, err := r.g.WhatIf(r.t.Context(), root, q)
	r.must(err)
	for _, h := range r.hosts {
		asked -= h.calls("Reserve") + h.calls("Verdict")
	}
	if after := fmt.Sprint(r.rows()); after != before || asked != 0 {
		r.t.Errorf("a question left %s, and it was %s; hosts were asked %d times", after, before, -asked)
	}
	return out
}

// TestWhatIfIsWhatComes: as many are admitted as it said, the next one gets the code that it said,
// and nothing was claimed by the question, whatever stops it: memory, a dimension, labels, a cap,
// waiters, a quota.
func TestWhatIfIsWhatComes(t *testing.T) {
	hosts := func() []*fakeHost {
		return []*fakeHost{
			{id: "h1", budget: 4 * gate.GiB},
			{id: "h2", budget: 2 * gate.GiB, config: func(c *host.Config) { c.Dims = []gate.Dim{{Name: "gpus", N: 3}} }},
			{id: "h3", budget: 2 * gate.GiB, config: zone("b")},
		}
	}
	for _, c := range []struct {
		class, tenant string
		want          int64
		code          api.Code
		line          string
	}{
		{"small", "alice", 58, api.NoCapacity, "the fleet says not now (no_capacity): needs 128 MiB"},
		{"base", "alice", 5, api.NoCapacity, "needs 1024 MiB; no_room"},
		{"card", "alice", 3, api.NoCapacity, "lacks_dimension:gpus"},
		{"zoned", "alice", 14, api.NoCapacity, "lacks_label"},
		{"quad", "alice", 4, api.PoolFull, "pool four says not now (pool_full): pool four has 4 of 4 slots taken"},
		{"small", "poor", 1, api.TenantOverQuota, "the quota of tenant poor says not allowed (tenant_over_quota): tenant poor holds 1 of its 1"},
	} {
		bubble(t, hosts(), func(r *rig) {
			r.apply(strings.Replace(fleetDocument, "default_quota", "consumers: [{name: alice, tenants: [alice, poor]}]\ndefault_quota", 1))
			as := func(q *api.WhatIfRequest) { q.Consumer, q.Tenant = "alice", c.tenant }
			out := r.whatIf(c.class, 1000, as)
			if out.Fits != c.want || out.Next == nil || out.Next.Code != c.code || !strings.Contains(out.Next.Line, c.line) {
				t.Errorf("%s: %+v, next %+v", c.class, out, out.Next)
			}
			sum := int64(0)
			for _, h := range out.Hosts {
				sum += h.Count
			}
			if sum != out.Fits {
				t.Errorf("%s: %d of %d have a host", c.class, sum, out.Fits)
			}
			if few := r.whatIf(c.class, 1, as); few.Fits != 1 || few.Next != nil {
				t.Errorf("%s: %+v", c.class, few)
			}
			words := map[string]int{}
			for i := range c.want + 1 {
				words[said(r.post(fmt.Sprint("k", i), c.class, func(q *api.AdmissionRequest) { q.Tenant = c.tenant })).word]++
			}
			if want := map[string]int{"yes": int(c.want), string(c.code): 1}; !reflect.DeepEqual(words, want) {
				t.Errorf("%s: it came to %v, not %v", c.class, words, want)
			}
			if now := r.whatIf(c.class, 5, as); now.Fits != 0 || now.Next.Code != c.code || len(now.Next.Changes) == 0 {
				t.Errorf("%s, once they are there: %+v", c.class, now)
			}
			r.letGo()
		})
	}
}

// TestWhatIfWithout: a host that is thought away takes nothing, and takes the nearest miss with it.
func TestWhatIfWithout(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		without := func(ids ...string) func(*api.WhatIfRequest) {
			return func(q *api.WhatIfRequest) { q.WithoutHosts = ids }
		}
		if out := r.whatIf("base", 10); out.Fits != 6 || out.Next.Nearest != "h1 lacks 256 MiB of 1,024" && out.Next.Nearest != "h2 lacks 256 MiB of 1,024" {
			t.Errorf("%+v %+v", out, out.Next)
		}
		if out := r.whatIf("base", 10, without("h2")); out.Fits != 3 || len(out.Hosts) != 1 || out.Hosts[0].Host != "h1" || !strings.HasPrefix(out.Next.Nearest, "h1 ") {
			t.Errorf("%+v %+v", out, out.Next)
		}
		if out := r.whatIf("base", 10, without("h1", "h2", "h9")); out.Fits != 0 || out.Next.Code != api.NoHealthyAgents {
			t.Errorf("%+v %+v", out, out.Next)
		}
		if out := r.whatIf("small", 1, func(q *api.WhatIfRequest) { mb := int64(64 << 10); q.MemoryMB = &mb }); out.Fits != 0 || out.Next.Code != api.Infeasible {
			t.Errorf("%+v %+v", out, out.Next)
		}
		r.admit("k", "base") // the hosts themselves are as they were
	})
}

// TestWhatIfWaiters: those that wait go first, on a copy as in the store; a pool without hosts needs
// none.
func TestWhatIfWaiters(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.apply(cloudDocument)
		if out := r.whatIf("cell", 3); out.Fits != 1 || out.Next.Code != api.PoolFull || len(out.Hosts) != 0 {
			t.Errorf("%+v %+v", out, out.Next)
		}
		r.admit("k", "cell")
		if out, err := r.post("w", "cell", queue); out.Waiting == nil {
			t.Fatalf("%+v %v", out, err)
		}
		out := r.whatIf("cell", 1)
		if out.Fits != 0 || !strings.Contains(out.Next.Line, "1 waiting") {
			t.Errorf("%+v %+v", out, out.Next)
		}
		var raise string
		for _, c := range out.Next.Changes {
			raise += c.Command
		}
		if raise != `plimsoll pool set cloud --cap 3 --for 1h --reason "room for what-if"` { // one for the waiter
			t.Errorf("%q", raise)
		}
	})
}

// TestWhatIfMistakes: who is no consumer, a class that is none, and a count that is too many.
func TestWhatIfMistakes(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		for want, q := range map[string]api.WhatIfRequest{
			"count: 0 is not":            {Class: "small"},
			"count: 1001 is not":         {Class: "small", Count: 1001},
			`the configuration names no`: {Class: "small", Count: 1, Consumer: "nobody"},
			`class "tiny"`:               {Class: "tiny", Count: 1},
			"memory_mb: 2 is":            {Class: "quad", Count: 1, MemoryMB: &[]int64{2}[0]},
		} {
			if _, err := r.g.WhatIf(t.Context(), &config.Consumer{Name: "root", Roles: []config.Role{config.RoleAdmin}}, q); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
}
