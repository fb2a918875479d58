package control_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
)

// crowd runs n creates at once and counts what they are told.
func (r *rig) crowd(n int, class string) map[string]int { return r.crowdOf(n, class) }

func (r *rig) crowdOf(n int, class string, change ...func(*api.AdmissionRequest)) map[string]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	words := map[string]int{}
	for i := range n {
		wg.Go(func() {
			got := said(r.post(fmt.Sprintf("k%d", i), class, change...))
			mu.Lock()
			defer mu.Unlock()
			words[got.word]++
		})
	}
	wg.Wait()
	return words
}

// TestBurst (T01, T02, T06, T07, trap 1): a host of 4,096 MiB with a headroom of 256 takes
// 30 of 128, however many ask at once; a pool of four takes four.
func TestBurst(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		if words := r.crowd(40, "small"); words["yes"] != 30 || words["no_capacity"] != 10 {
			t.Errorf("40 creates at once: %v", words)
		}
		r.wantHeld(30, 30, 0)
		r.letGo()
	})
	bubble(t, oneHost(4096), func(r *rig) {
		if words := r.crowd(10, "quad"); words["yes"] != 4 || words["pool_full"] != 6 {
			t.Errorf("10 creates at once in a pool of four: %v", words)
		}
	})
}

// TestBurstWithFailures (T81, T39, T40): some of ten creates fail half-way; nothing is left.
func TestBurstWithFailures(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		r.hosts[0].fail("Reserve", "lost")
		r.hosts[1].fail("Reserve", "late")
		r.crowd(10, "small")
		time.Sleep(10 * time.Second)
		r.letGo()
	}, storetest.Fault{Call: "Settle", Nth: 3}, storetest.Fault{Call: "Settle", Nth: 5, Persisted: true}, storetest.Fault{Call: "Claim", Nth: 7, Persisted: true})
}

// TestStormSharesItsSweep (F07): a storm of refusals costs no storm of questions, and every
// one of them comes after a bounded number of tries and with an appointment. Whoever records
// the class, a host is asked a few times for two thousand.
func TestStormSharesItsSweep(t *testing.T) {
	for _, class := range []string{"large", "alone"} {
		bubble(t, twoHosts(4096), func(r *rig) {
			full(r)
			if class == "alone" {
				r.apply(strings.Replace(aloneDocument, "max_memory: 4GiB", "max_memory: 8GiB", 1))
			}
			before, began := r.hosts[0].calls("Verdict"), time.Now()
			asked := r.hosts[0].calls("Reserve") + r.hosts[1].calls("Reserve")
			r.hosts[1].set(func() { r.hosts[1].lag = 5 * time.Millisecond })
			var change []func(*api.AdmissionRequest)
			if class == "alone" {
				change = append(change, func(q *api.AdmissionRequest) { n := int64(4096); q.MemoryMB = &n })
			}
			words := r.crowdOf(2000, class, change...)
			if words["no_capacity"] != 2000 {
				t.Errorf("2,000 creates on full hosts: %v", words)
			}
			if n := r.hosts[0].calls("Verdict") - before; n < 1 || n > 5 {
				t.Errorf("2,000 refusals asked a host %d times", n)
			}
			if n := r.hosts[0].calls("Reserve") + r.hosts[1].calls("Reserve") - asked; n > 2000*5 {
				t.Errorf("2,000 refusals cost %d reserves", n)
			}
			if took := time.Since(began); took > 2*time.Second+sweepBound {
				t.Errorf("the last was told after %v", took)
			}
		})
	}
}

// sweepBound is more than a sweep and the pauses may take.
const sweepBound = 500 * time.Millisecond

// TestNoRefusalFromACachedNegative (§12.6, T57): the table says full, the host's newest word
// has room, and its news is lost.
func TestNoRefusalFromACachedNegative(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		full(r)
		h := r.hosts[0]
		h.set(func() { h.quiet, h.budget = true, 16*gate.GiB })
		h.sample()
		synctest.Wait()
		out, err := r.post("k", "large")
		r.want("yes", out, err)
	})
}

func zone(name string) func(*host.Config) {
	return func(c *host.Config) { c.Labels = []gate.Label{{Name: "zone", Value: name}} }
}

// TestWhoseNo (T64, T78, T79, T67): a refusal names the hosts for each reason, and counts
// them all.
func TestWhoseNo(t *testing.T) {
	hosts := twoHosts(4096)
	hosts = append(hosts, &fakeHost{id: "h3", budget: 4 * gate.GiB, config: zone("a")},
		&fakeHost{id: "h4", budget: 4 * gate.GiB, config: zone("b")}, &fakeHost{id: "h5", budget: 4 * gate.GiB, config: zone("b")},
		&fakeHost{id: "h6", budget: 4 * gate.GiB, config: func(c *host.Config) { c.Dims = []gate.Dim{{Name: "gpus", N: 1}} }})
	bubble(t, hosts, func(r *rig) {
		full(r)
		r.host("h1").step(host.SetIntake{Intake: host.IntakeDraining})
		r.host("h5").step(host.SetIntake{Intake: host.IntakeCordoned})
		time.Sleep(time.Second)
		out, err := r.post("k", "zoned", func(q *api.AdmissionRequest) { mb := int64(512); q.MemoryMB = &mb })
		r.want("yes", out, err) // on h4, which has 768 MiB left
		for i := range 5 {
			r.post(fmt.Sprint("k", i), "zoned")
		}
		out, err = r.post("k9", "zoned")
		got := r.want("no_capacity", out, err)
		refusal, _ := api.AsRefusal(got.err)
		want := map[string]string{"draining": "h1", "cordoned": "h5", "lacks_label": "h2 h3 h6", "no_room": "h4"}
		for reason, ids := range want {
			if has := strings.Join(slices.Sorted(slices.Values(refusal.Figures.Hosts[reason])), " "); has != ids {
				t.Errorf("%s: %q, want %q", reason, has, ids)
			}
		}
		if len(refusal.Figures.Hosts) != len(want) || refusal.Detail == "" {
			t.Errorf("%+v", refusal.Figures.Hosts)
		}
		r.admit("g1", "card")
		out, err = r.post("g2", "card")
		got = r.want("no_capacity", out, err)
		refusal, _ = api.AsRefusal(got.err)
		if f := refusal.Figures; f.Pool != "wide-open" || f.Cap != nil { // it has none, and no figure stands for that
			t.Errorf("%+v", f)
		}
		if _, named := refusal.Figures.Hosts["lacks_dimension:gpus"]; !named { // T78, T11
			t.Errorf("the dimension is not named: %v", refusal.Figures.Hosts)
		}
	})
	bubble(t, oneHost(4096), func(r *rig) {
		out, err := r.post("k", "zoned") // T64: no host could ever: not retryable
		r.want("infeasible", out, err)
		out, err = r.post("k", "zoned", queue) // T83
		r.want("infeasible", out, err)
	})
}

// TestPinned (T68): the scope is the host's, and the remedy says whether to move or to wait.
func TestPinned(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		mb := func(q *api.AdmissionRequest) { n := int64(12 << 10); q.MemoryMB = &n }
		r.admit("k1", "small", pinned("h1", api.HostPinModeRequire), mb)
		out, err := r.post("k2", "large", pinned("h1", api.HostPinModeRequire))
		refusal, _ := api.AsRefusal(r.want("no_capacity", out, err).err)
		if refusal.WhoseNo() != api.ScopeHost || !strings.Contains(refusal.Remedy, "another host has room") {
			t.Errorf("%+v", refusal)
		}
		r.admit("k3", "small", pinned("h2", api.HostPinModeRequire), mb)
		out, err = r.post("k2", "large", pinned("h1", api.HostPinModeRequire))
		refusal, _ = api.AsRefusal(r.want("no_capacity", out, err).err)
		if refusal.WhoseNo() != api.ScopeHost || !strings.Contains(refusal.Remedy, "no other host") {
			t.Errorf("%+v", refusal)
		}
		out, err = r.post("k4", "small", pinned("h9", api.HostPinModeRequire))
		r.want("infeasible", out, err)
		out, err = r.post("k5", "small", pinned("h9", api.HostPinModePrefer))
		r.want("yes", out, err)
	})
}

// TestUnmeasured: a never does not come from ignorance.
func TestUnmeasured(t *testing.T) {
	bubble(t, oneHost(0), func(r *rig) {
		out, err := r.post("k", "small")
		r.want("no_healthy_agents", out, err)
		h := r.hosts[0]
		h.set(func() { h.budget = 4 * gate.GiB })
		h.sample()
		time.Sleep(time.Second)
		out, err = r.post("k", "small")
		r.want("yes", out, err)
	})
	bubble(t, nil, func(r *rig) {
		out, err := r.post("k", "small", queue)
		r.want("no_healthy_agents", out, err)
	})
}

// TestEachItsOwnAppointment (trap 4): callers that are refused in one instant are not told
// one moment, and a longer line is told later.
func TestEachItsOwnAppointment(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k", "solo")
		seen := map[time.Duration]bool{}
		var last time.Duration
		for i := range 50 {
			_, err := r.post(fmt.Sprint("k", i), "solo")
			refusal, _ := api.AsRefusal(err)
			if after := refusal.RetryAfter; seen[after] || after < last {
				t.Errorf("caller %d is told %v after %v", i, after, last)
			}
			last = refusal.RetryAfter
			seen[last] = true
		}
	})
}

// TestUnavailableForAMoment: whom the store did not answer comes back soon, however many there
// were before it; it is no line that anybody stands in.
func TestUnavailableForAMoment(t *testing.T) {
	var plan []storetest.Fault
	for n := range 100 {
		plan = append(plan, storetest.Fault{Call: "Claim", Nth: n + 1})
	}
	bubble(t, oneHost(4096), func(r *rig) {
		for i := range 100 {
			out, err := r.post(fmt.Sprint("k", i), "solo")
			r.want("unavailable", out, err)
			if refusal, _ := api.AsRefusal(err); refusal.RetryAfter > 2*time.Second || refusal.Receipt == "" {
				t.Errorf("caller %d is told %v", i, refusal.RetryAfter)
			}
		}
		r.admit("k", "solo")
	}, plan...)
}

// TestADemandedHostIsSilent, T78: the refusal names the host, and what was needed of it.
func TestADemandedHostIsSilent(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		h1 := r.host("h1")
		h1.set(func() { h1.deaf = true })
		time.Sleep(40 * time.Second)
		out, err := r.post("k", "small", pinned("h1", api.HostPinModeRequire))
		r.want("host_silent", out, err)
		if !strings.HasSuffix(err.Error(), "; silent: h1") {
			t.Error(err)
		}
	})
}

// TestNoRefusalOfAPinnedHostUnasked: of more hosts than a sweep asks, the one that is
// demanded is asked (§12.6).
func TestNoRefusalOfAPinnedHostUnasked(t *testing.T) {
	var hosts []*fakeHost
	for i := range 40 {
		hosts = append(hosts, &fakeHost{id: fmt.Sprintf("h%02d", i), budget: 4 * gate.GiB})
	}
	bubble(t, hosts, func(r *rig) {
		for _, h := range hosts[:8] {
			pin := pinned(h.id, api.HostPinModeRequire)
			mb := int64(12 << 10)
			r.admit("filler-"+h.id, "small", pin, func(q *api.AdmissionRequest) { q.MemoryMB = &mb })
			h.set(func() { h.quiet, h.budget = true, 16*gate.GiB })
			h.sample()
			synctest.Wait()
			out, err := r.post("k-"+h.id, "large", pin)
			r.want("yes", out, err)
		}
	})
}

// TestAppointmentsFollowTheRate: of a pool that frees ten slots a second the next caller is
// told less than a second, once exits, or releases, have been seen.
func TestAppointmentsFollowTheRate(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"exits":    func(r *rig) { r.boot(r.admit("k", "solo")); synctest.Wait(); r.exit("k") },
		"releases": func(r *rig) { r.admit("k", "solo"); r.release("k") },
	} {
		bubble(t, oneHost(4096), func(r *rig) {
			hint := func() time.Duration {
				r.admit("holds", "solo")
				_, err := r.post("comes", "solo")
				r.release("holds")
				refusal, _ := api.AsRefusal(err)
				return refusal.RetryAfter
			}
			before := hint()
			for range 300 {
				end(r)
				time.Sleep(100 * time.Millisecond)
			}
			if after := hint(); before < time.Second || after >= time.Second {
				t.Errorf("%s: told %v before and %v after", name, before, after)
			}
		})
	}
}

// TestSilentPinned (T68): that the one host which is demanded is not heard is that host's no,
// and nobody is woken for the fleet; with none demanded it is the fleet's.
func TestSilentPinned(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		r.hosts[0].set(func() { r.hosts[0].deaf = true })
		time.Sleep(40 * time.Second)
		out, err := r.post("k1", "small", pinned("h1", api.HostPinModeRequire))
		refusal, _ := api.AsRefusal(r.want("host_silent", out, err).err)
		if refusal.WhoseNo() != api.ScopeHost || refusal.Figures.ElsewhereFits == nil || !*refusal.Figures.ElsewhereFits || refusal.Code.Meaning().Page {
			t.Errorf("%+v", refusal)
		}
		r.hosts[1].set(func() { r.hosts[1].deaf = true })
		time.Sleep(40 * time.Second)
		out, err = r.post("k2", "small")
		refusal, _ = api.AsRefusal(r.want("no_healthy_agents", out, err).err)
		if refusal.WhoseNo() != api.ScopeFleet || len(refusal.Figures.Hosts["silent"]) != 2 {
			t.Errorf("%+v", refusal)
		}
		out, err = r.post("k3", "small", func(q *api.AdmissionRequest) { n := int64(64 << 10); q.MemoryMB = &n })
		r.want("infeasible", out, err) // judged against silent hosts too: never, and not later
		r.hosts[0].set(func() { r.hosts[0].deaf = false })
		r.hosts[1].set(func() { r.hosts[1].deaf = false })
		time.Sleep(20 * time.Second)
	})
}

// TestOneReasonEverywhere (T64, T67, T68): pressure, starts and draining are said only when that
// alone refused everywhere; of a pinned ask with the host's scope, and else with the fleet's.
func TestOneReasonEverywhere(t *testing.T) {
	hosts := twoHosts(4096)
	for _, h := range hosts {
		h.config = func(c *host.Config) { c.MaxStarts, c.MaxWaitingStarts = 1, 0 }
	}
	bubble(t, hosts, func(r *rig) {
		scope := func(code string, want api.Scope, change ...func(*api.AdmissionRequest)) {
			t.Helper()
			out, err := r.post("k", "small", change...)
			refusal, _ := api.AsRefusal(r.want(code, out, err).err)
			if refusal.WhoseNo() != want || refusal.Code.Meaning().Status != 503 {
				t.Errorf("%s: %s", code, refusal.WhoseNo())
			}
		}
		r.admit("a", "small", pinned("h1", api.HostPinModeRequire))
		scope("host_starts_saturated", api.ScopeHost, pinned("h1", api.HostPinModeRequire))
		r.admit("b", "small", pinned("h2", api.HostPinModeRequire))
		scope("host_starts_saturated", api.ScopeFleet)
		r.host("h1").step(host.SetIntake{Intake: host.IntakeDraining})
		scope("no_capacity", api.ScopeFleet) // the one drains, the other is busy: not one reason
		r.host("h2").step(host.SetIntake{Intake: host.IntakeDraining})
		scope("host_draining", api.ScopeFleet)
	})
}

// TestFitIsJudgedPerAsk (F11): a small ask fits where a large one does not, and the no to the
// large one is a 503, or a never, and no fault of the request.
func TestFitIsJudgedPerAsk(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		full(r)
		size := func(mb int64) func(*api.AdmissionRequest) {
			return func(q *api.AdmissionRequest) { q.MemoryMB = &mb }
		}
		out, err := r.post("large", "small", size(8<<10))
		if got := r.want("no_capacity", out, err); errorStatus(got.err) != 503 {
			t.Errorf("%v", got.err)
		}
		out, err = r.post("small", "small", size(1<<10))
		r.want("yes", out, err)
		out, err = r.post("giant", "small", size(64<<10))
		if got := r.want("infeasible", out, err); errorStatus(got.err) != 422 {
			t.Errorf("%v", got.err)
		}
	})
}

func errorStatus(err error) int {
	refusal, ok := api.AsRefusal(err)
	if !ok {
		return 0
	}
	return refusal.Code.Meaning().Status
}
