package control_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
)

// quarantined is why a host is out, as the list of hosts says it.
func (r *rig) quarantined(id string) string {
	r.t.Helper()
	list, err := r.g.Hosts(r.t.Context())
	r.must(err)
	for _, h := range list.Hosts {
		if h.ID == id {
			return string(h.Quarantine)
		}
	}
	return "not listed"
}

// T93: an agent that is frozen and whose stream goes on heartbeating is found within three
// creates, each of which gets its place elsewhere; it is tried again later, and one answer
// makes it good. Before a refusal it is asked all the same.
func TestFrozenHostIsFound(t *testing.T) {
	hosts := []*fakeHost{{id: "h1", budget: 8 << 30}, {id: "h2", budget: (256 + 4*1024) << 20}}
	bubble(t, hosts, func(r *rig) {
		h1 := r.host("h1")
		for i := range 2 {
			h1.fail("Reserve", "deaf")
			if a := r.admit(fmt.Sprint("k", i), "base"); a.Host != "h2" {
				t.Fatalf("%s promised while it answers nothing", a.Host)
			}
		}
		asked := h1.calls("Reserve")
		if a := r.admit("third", "base"); a.Host != "h2" || h1.calls("Reserve") != asked || r.quarantined("h1") != "unanswered" {
			t.Errorf("the third create is at %s, h1 was asked %d times, quarantined: %q", a.Host, h1.calls("Reserve"), r.quarantined("h1"))
		}
		time.Sleep(11 * time.Second) // the trial
		synctest.Wait()
		if a := r.admit("trial", "base"); a.Host != "h1" || r.quarantined("h1") != "" {
			t.Errorf("the trial is at %s, quarantined: %q", a.Host, r.quarantined("h1"))
		}
		for i := range 2 {
			h1.fail("Reserve", "deaf")
			r.post(fmt.Sprint("again", i), "base")
		}
		if r.quarantined("h1") != "unanswered" {
			t.Fatal("not quarantined again")
		}
		for n := range 10 { // h2 is soon full; h1 answers again, and is asked though its time is not over
			if a := r.admit(fmt.Sprint("more", n), "base"); a.Host == "h1" {
				break
			}
		}
		if r.quarantined("h1") != "" {
			t.Error("it answered, and is quarantined")
		}
		r.letGo()
	})
}

// A host that stands still is shown as one at once: how old its word is, that it is its last
// one, and each reserve that it left unanswered; not only once it is quarantined or silent.
func TestFrozenHostIsShown(t *testing.T) {
	bubble(t, oneHost(8192), func(r *rig) {
		h1 := r.host("h1")
		shown := func() api.Host {
			all, err := r.g.Hosts(r.t.Context())
			r.must(err)
			return all.Hosts[0]
		}
		if h := shown(); h.LastWord || *h.HeardMSAgo != 0 || h.UnansweredReserves != 0 {
			t.Errorf("%+v", h)
		}
		h1.set(func() { h1.deaf = true })
		r.post("k", "small")
		if h := shown(); !h.LastWord || *h.HeardMSAgo < 2000 || h.UnansweredReserves != 1 || h.Quarantine != "" || h.AdmittableMB == 0 {
			t.Errorf("%+v", h)
		}
		h1.set(func() { h1.deaf = false })
		r.admit("k", "small")
		if h := shown(); h.LastWord || h.UnansweredReserves != 0 {
			t.Errorf("it answered: %+v", h)
		}
		r.letGo()
	})
}

// All hosts are frozen: the refusals do not wait for them again and again, and call for somebody.
func TestAllFrozen(t *testing.T) {
	bubble(t, oneHost(8192), func(r *rig) {
		h1 := r.host("h1")
		for i := range 2 {
			h1.fail("Reserve", "deaf")
			_, err := r.post(fmt.Sprint("k", i), "small")
			if err == nil {
				t.Fatal("admitted")
			}
			if i == 0 && !strings.HasSuffix(err.Error(), "; unanswered: h1") { // T78: it names who did not answer
				t.Error(err)
			}
		}
		h1.set(func() { h1.deaf = true })
		time.Sleep(time.Second) // its last word is older than the sweep
		began := time.Now()
		out, err := r.post("third", "small")
		r.want("no_healthy_agents", out, err)
		if took := time.Since(began); took > time.Second {
			t.Errorf("told after %v", took)
		}
		h1.set(func() { h1.deaf = false })
		r.admit("back", "small") // the sweep hears it
		r.letGo()
	})
}

// A host where no boot comes up looks ever emptier: after eight in a row it is left alone, and
// a boot that comes up makes it good. It is the last one, so it is asked before a refusal.
func TestBootsThatFail(t *testing.T) {
	bubble(t, oneHost(8192), func(r *rig) {
		h1 := r.host("h1")
		fail := func(n int) {
			key := fmt.Sprint("dud", n)
			a := r.admit(key, "small")
			ref := host.Ref{ID: a.ID, Epoch: a.Epoch}
			h1.step(host.Redeem{ID: ref.ID, Epoch: ref.Epoch, Identity: host.Identity{Consumer: "alice", Key: key, Pool: a.Pool, Class: a.Class}})
			time.Sleep(time.Second)
			h1.done(ref.ID, ref.Epoch)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		for n := range 8 {
			if q := r.quarantined("h1"); q != "" {
				t.Fatalf("quarantined after %d boots: %s", n, q)
			}
			fail(n)
		}
		if q := r.quarantined("h1"); q != "boots_failed" {
			t.Fatalf("quarantined: %q", q)
		}
		if denial := r.boot(r.admit("good", "small")); denial != "" {
			t.Fatal(denial)
		}
		synctest.Wait()
		if q := r.quarantined("h1"); q != "" {
			t.Errorf("a boot came up, and it is quarantined: %q", q)
		}
		r.letGo()
	})
}

// What one tenant starts of one template goes to several hosts, though one of them is far
// emptier, and all of it is admitted when there are no others.
func TestCohortsAreSpread(t *testing.T) {
	hosts := []*fakeHost{{id: "h1", budget: 32 << 30}, {id: "h2", budget: 4 << 30}}
	bubble(t, hosts, func(r *rig) {
		r.apply(fleetDocument + "cohort_per_host: 3\ncohort_window: 30s\n")
		at := map[string]int{}
		for n := range 9 {
			at[r.admit(fmt.Sprint("k", n), "small").Host]++
			if n == 5 && (at["h1"] != 3 || at["h2"] != 3) {
				t.Errorf("of six: %v", at)
			}
		}
		if at["h1"] != 6 {
			t.Errorf("when each has its share the emptier one comes first: %v", at)
		}
		if a := r.admit("other", "small", func(q *api.AdmissionRequest) { q.Tenant = "poor" }); a.Host != "h1" {
			t.Errorf("another tenant's is at %s", a.Host)
		}
		r.letGo()
	})
}
