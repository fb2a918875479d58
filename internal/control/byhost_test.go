package control_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// aloneDocument: hosts alone record class alone; a sandbox of it is charged 128 MiB.
const aloneDocument = `
pools: [{name: wide-open, cap: none}, {name: two, cap: 2}]
classes:
  - {name: alone, pool: wide-open, memory: 512MiB, max_memory: 4GiB, reserve_floor: 64MiB, record: host}
  - {name: keeper-alone, pool: wide-open, memory: 512MiB, reserve_floor: 64MiB, record: host, hold_on_exit: true}
  - {name: duo, pool: two, memory: 512MiB, reserve_floor: 64MiB}
default_quota: none
`

// aloneIn runs a test over such a fleet; idle means zero at its end.
func aloneIn(t *testing.T, hosts []*fakeHost, test func(*rig)) {
	t.Helper()
	bubble(t, hosts, func(r *rig) {
		r.apply(aloneDocument)
		test(r)
		r.letGo()
	})
}

// untouched proves that no transition of an admission reached the store.
func (r *rig) untouched() {
	r.t.Helper()
	for _, call := range []string{"Claim", "Regen", "Settle", "NoRoom", "Renew", "Track", "Reopen", "Move", "Leave", "End", "Get", "ByID"} {
		if n := r.store.Calls(call); n > 0 {
			r.t.Errorf("the store was asked for %s %d times", call, n)
		}
	}
}

// TestByHost walks one through its whole life, and the store hears nothing of it (design §5).
func TestByHost(t *testing.T) {
	aloneIn(t, twoHosts(4096), func(r *rig) {
		a := r.admit("k", "alone")
		if !strings.HasPrefix(a.ID, "hst-") || !strings.HasSuffix(a.ID, "."+a.Host) || a.Epoch != 1 || a.HeartbeatMS == 0 {
			t.Errorf("%+v", a)
		}
		again := r.admit("k", "alone") // the same key is the same admission
		if again.ID != a.ID || again.Ticket == "" {
			t.Errorf("again: %+v", again)
		}
		time.Sleep(50 * time.Second)
		out, err := heartbeat(r)
		r.want("yes", out, err)
		time.Sleep(50 * time.Second) // it would have lapsed without
		if denial := r.boot(*out.Admission); denial != "" {
			t.Error(denial)
		}
		synctest.Wait()
		out, err = r.post("k", "alone")
		r.want("running", out, err)
		got, err := r.g.Get(r.t.Context(), alice, "k")
		if err != nil || got.State != api.AdmissionStateRunning || got.ChargeMB != 128 {
			t.Errorf("%+v %v", got, err)
		}
		for _, order := range []func(context.Context, *config.Consumer, control.Filter) (api.AdmissionList, error){r.g.List, r.g.Page} {
			list, err := order(r.t.Context(), alice, control.Filter{Limit: 10})
			if err != nil || len(list.Admissions) != 1 || list.Admissions[0].ID != a.ID {
				t.Errorf("%+v %v", list, err)
			}
		}
		if list, err := r.g.Page(r.t.Context(), alice, control.Filter{Limit: 10, After: a.ID}); err != nil || len(list.Admissions) != 0 || list.Truncated {
			t.Errorf("after the only one: %+v %v", list, err)
		}
		r.host(a.Host).done(a.ID, 1)
		synctest.Wait()
		if b := r.admit("k", "alone"); b.ID == a.ID {
			t.Error("an id was used twice")
		}
		out, err = release(r)
		r.want("released", out, err)
		r.untouched()
	})
}

// TestByHostAtAnotherReplica: by its id any replica shows, keeps and releases it; and nobody
// else's consumer does.
func TestByHostAtAnotherReplica(t *testing.T) {
	aloneIn(t, twoHosts(4096), func(r *rig) {
		a := r.admit("k", "alone")
		g2 := r.another()
		got, err := g2.GetByID(r.t.Context(), alice, a.ID)
		if err != nil || got.Key != "k" || got.State != api.AdmissionStateAdmitted || got.Class != "alone" || got.MemoryMB != 512 {
			t.Errorf("%+v %v", got, err)
		}
		if _, err := g2.GetByID(r.t.Context(), bob, a.ID); !isCode(err, api.NotFound) {
			t.Error("bob sees alice's:", err)
		}
		if _, err := g2.ReleaseByID(r.t.Context(), bob, a.ID, 0); !isCode(err, api.NotFound) {
			t.Error("bob releases alice's:", err)
		}
		time.Sleep(50 * time.Second)
		out, err := g2.HeartbeatByID(r.t.Context(), alice, a.ID)
		r.want("yes", out, err)
		time.Sleep(40 * time.Second) // it is kept from the host's last word on, which may be 15 s old
		if denial := r.boot(*out.Admission); denial != "" {
			t.Error(denial)
		}
		if _, err := g2.ReleaseByID(r.t.Context(), alice, a.ID, 2); !isCode(err, api.NotFound) {
			t.Error("of another epoch:", err)
		}
		out, err = g2.ReleaseByID(r.t.Context(), root, a.ID, 1)
		r.want("releasing", out, err)
		synctest.Wait()
		got, err = g2.GetByID(r.t.Context(), alice, a.ID)
		if err != nil || got.State != api.AdmissionStateReleased {
			t.Errorf("%+v %v", got, err)
		}
		if out, err := r.post("k", "alone"); err != nil || out.Admission.ID == a.ID {
			t.Error("the replica that took it did not hear its end:", err)
		}
		r.untouched()
	})
}

// byKeyAt: the hosts know whose it is, so that a replica that was not asked for it finds it by
// its key, and lists it; and nobody else's consumer does.
func (r *rig) byKeyAt(g *control.Gateway, id string) {
	r.t.Helper()
	got, err := g.Get(r.t.Context(), alice, "k")
	if err != nil || got.ID != id || got.State != api.AdmissionStateAdmitted || got.MemoryMB != 512 {
		r.t.Errorf("%+v %v", got, err)
	}
	if _, err := g.Get(r.t.Context(), bob, "k"); !isCode(err, api.NotFound) {
		r.t.Error("bob finds alice's:", err)
	}
	for who, want := range map[*config.Consumer]int{alice: 1, bob: 0, root: 1} {
		list, err := g.List(r.t.Context(), who, control.Filter{Limit: 10})
		if err != nil || list.Truncated || len(list.Admissions) != want || want == 1 && list.Admissions[0].ID != id {
			r.t.Errorf("%s: %+v %v", who.Name, list, err)
		}
	}
	if list, err := g.List(r.t.Context(), root, control.Filter{Limit: 10, States: []pool.State{pool.Running}}); err != nil || len(list.Admissions) != 0 {
		r.t.Errorf("of those that run: %+v %v", list, err)
	}
}

// TestPagesHaveBoth: what the store keeps and what hosts alone record are one list, in the order
// of their ids, at every size of a page.
func TestPagesHaveBoth(t *testing.T) {
	aloneIn(t, twoHosts(4096), func(r *rig) {
		var want []string
		for i := range 4 {
			want = append(want, r.admit(fmt.Sprint("a", i), "alone").ID)
		}
		for i := range 2 {
			want = append(want, r.admit(fmt.Sprint("d", i), "duo").ID)
		}
		slices.Sort(want)
		other := r.another() // which knows of the four only from their hosts
		for limit := 1; limit <= 7; limit++ {
			var got []string
			for f := (control.Filter{Limit: limit}); ; f.After = got[len(got)-1] {
				page, err := other.Page(r.t.Context(), root, f)
				if err != nil || len(page.Admissions) > limit {
					t.Fatalf("%+v %v", page, err)
				}
				for _, a := range page.Admissions {
					got = append(got, a.ID)
				}
				if !page.Truncated {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("by %d: %v, want %v", limit, got, want)
			}
		}
	})
}

// TestByHostKeyAtAnotherReplica: by its key, too, any replica keeps and releases it. A host that cannot be heard is left out, and nobody waits for it
// for longer than for any other answer.
func TestByHostKeyAtAnotherReplica(t *testing.T) {
	aloneIn(t, twoHosts(4096), func(r *rig) {
		a := r.admit("k", "alone")
		g2, g3 := r.another(), r.another()
		r.byKeyAt(g2, a.ID)
		given := r.admit("given", "alone")
		back, err := g2.Release(r.t.Context(), alice, "given", 1)
		r.want("released", back, err)
		if got, err := r.g.Get(r.t.Context(), alice, "given"); err != nil || got.ID != given.ID || got.State != api.AdmissionStateReleased {
			t.Errorf("what another replica took back: %+v %v", got, err)
		}
		time.Sleep(50 * time.Second)
		out, err := g2.Heartbeat(r.t.Context(), alice, "k")
		r.want("yes", out, err)
		time.Sleep(40 * time.Second)
		if denial := r.boot(*out.Admission); denial != "" {
			t.Error(denial)
		}
		silent := r.host("h1")
		if a.Host == "h1" {
			silent = r.host("h2")
		}
		silent.mu.Lock()
		silent.deaf, silent.quiet = true, true
		silent.mu.Unlock()
		r.byKeyRuns(g3, a.ID)
		out, err = g2.Release(r.t.Context(), alice, "k", 1)
		r.want("releasing", out, err)
		synctest.Wait()
		if got, err := r.another().Get(r.t.Context(), alice, "k"); !isCode(err, api.NotFound) {
			t.Errorf("%+v %v", got, err)
		}
	})
}

func (r *rig) byKeyRuns(g *control.Gateway, id string) {
	r.t.Helper()
	began := time.Now()
	if got, err := g.Get(r.t.Context(), alice, "k"); err != nil || got.ID != id || got.State != api.AdmissionStateRunning || time.Since(began) > 3*time.Second {
		r.t.Errorf("%+v %v after %v", got, err, time.Since(began))
	}
}

func isCode(err error, code api.Code) bool {
	refusal, ok := api.AsRefusal(err)
	return ok && refusal.Code == code
}

// another is a second replica over the same store and hosts, which hears them by itself.
func (r *rig) another() *control.Gateway {
	r.t.Helper()
	o := r.options
	o.Metrics = control.NewMetrics(prometheus.NewRegistry())
	g, err := control.New(o)
	r.must(err)
	r.must(g.Load(r.t.Context()))
	go g.KeepUntil(r.hosts[0].ctx)
	for _, h := range r.hosts {
		ctx, cancel := context.WithCancel(h.ctx)
		r.t.Cleanup(cancel)
		go g.Attach(ctx, h, verdictFeed{h})
	}
	synctest.Wait()
	return g
}

// verdictFeed is a link's feed that tells how the host stands, and not what happens there.
type verdictFeed struct{ h *fakeHost }

func (f verdictFeed) Next(ctx context.Context) (host.News, error) {
	select {
	case <-time.After(5 * time.Second):
	case <-ctx.Done():
		return host.News{}, ctx.Err()
	}
	v, err := f.h.Verdict(ctx)
	return host.News{Verdict: v}, err
}

// TestByHostWithoutTheStore (design §9): the configuration in force and its tokens go on, and
// so do such classes, whole lives long; others are told unavailable.
func TestByHostWithoutTheStore(t *testing.T) {
	aloneIn(t, twoHosts(4096), func(r *rig) {
		r.store.GoAway(true)
		time.Sleep(time.Minute)
		for i := range 3 {
			a := r.admit(fmt.Sprint("k", i), "alone")
			if denial := r.boot(a); denial != "" {
				t.Error(denial)
			}
			time.Sleep(10 * time.Minute)
			if _, err := r.g.GetByID(r.t.Context(), alice, a.ID); err != nil {
				t.Error(err)
			}
			r.host(a.Host).done(a.ID, 1)
			synctest.Wait()
		}
		out, err := r.post("d", "duo")
		r.want("unavailable", out, err)
		for _, h := range r.hosts {
			if ends, _, _ := h.unwritten(); len(ends) > 0 {
				t.Errorf("host %s still tells %v", h.id, ends)
			}
		}
		r.store.GoAway(false)
	})
}

// TestByHostOneKeyAtOnce (T75): twenty calls with one key are one admission.
func TestByHostOneKeyAtOnce(t *testing.T) {
	aloneIn(t, twoHosts(4096), func(r *rig) {
		var mu sync.Mutex
		ids := map[string]int{}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				out, err := r.post("k", "alone")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					ids[out.Admission.ID]++
				}
			})
		}
		wg.Wait()
		if len(ids) != 1 {
			t.Errorf("%v", ids)
		}
		r.wantHeld(0, 1, 0)
	})
}

// TestByHostRefuses: no queue, no other contents, no more than fits, and nothing is left.
func TestByHostRefuses(t *testing.T) {
	aloneIn(t, oneHost(4096), func(r *rig) {
		out, err := r.post("k", "alone", queue)
		r.want("invalid_request", out, err)
		r.admit("k", "alone")
		out, err = r.post("k", "duo")
		r.want("key_conflict", out, err)
		out, err = r.post("k", "alone", func(q *api.AdmissionRequest) { q.Template = "other" })
		r.want("key_conflict", out, err)
		if words := r.crowd(40, "alone"); words["yes"] != 29 || words["no_capacity"] != 11 { // 30 fit, one stands
			t.Errorf("40 creates at once: %v", words)
		}
		if _, err := r.g.HoldPool(r.t.Context(), root, "wide-open", api.PoolHoldRequest{Reason: "test"}); !isCode(err, api.InvalidRequest) {
			t.Error("a pool that nobody counts is held:", err)
		}
	})
}

// byHostFaults: what goes wrong at the host, what the caller is told, and what when it does the
// same again. There is no store that could fail.
var byHostFaults = []fault{
	{name: "reserve failed", host: "Reserve", how: "failed", act: createAlone, want: "yes", again: "yes"},
	{name: "reserve lost", host: "Reserve", how: "lost", act: createAlone, want: "yes", again: "yes"},
	{name: "reserve late", host: "Reserve", how: "late", act: createAlone, want: "yes", again: "yes"},
	{name: "reserve and its release lost", host: "Reserve", how: "lost", prepare: func(r *rig) { r.host("h1").fail("Release", "failed") }, act: createAlone, want: "yes", again: "yes"},
	{name: "renew failed", host: "Renew", how: "failed", prepare: admittedAlone, act: heartbeat, want: "host_silent", again: "yes"},
	{name: "renew lost", host: "Renew", how: "lost", prepare: admittedAlone, act: heartbeat, want: "host_silent", again: "yes"},
	{name: "release failed", host: "Release", how: "failed", prepare: admittedAlone, act: release, want: "releasing", again: "released"},
	{name: "release lost", host: "Release", how: "lost", prepare: admittedAlone, act: release, want: "releasing", again: "released"},
	{name: "release late", host: "Release", how: "late", prepare: admittedAlone, act: release, want: "releasing", again: "released"},
	{name: "forgotten by its host", prepare: lapsedAlone, act: attempt, want: "yes", again: "yes"},
	{name: "draining", prepare: drainingAlone, act: attempt, want: "yes", again: "yes"},
	{name: "vacate lost", host: "Release", how: "lost", prepare: drainingAlone, act: attempt, want: "host_silent", again: "yes"},
}

func createAlone(r *rig) (control.Outcome, error) {
	return r.post("k", "alone", pinned("h1", api.HostPinModePrefer))
}

func admittedAlone(r *rig) { r.admit("k", "alone") }

func lapsedAlone(r *rig) {
	a := r.admit("k", "alone")
	r.host(a.Host).step(host.Release{ID: a.ID, Gen: a.Epoch})
}

func drainingAlone(r *rig) {
	a := r.admit("k", "alone")
	r.host(a.Host).step(host.SetIntake{Intake: host.IntakeDraining})
}

// TestByHostFaults (T28, T36, T40, T81): no path leaks, and no answer that was lost is a second
// admission.
func TestByHostFaults(t *testing.T) {
	for _, f := range byHostFaults {
		t.Run(f.name, func(t *testing.T) {
			aloneIn(t, twoHosts(4096), func(r *rig) {
				out, err := f.start(r)
				r.want(f.want, out, err)
				time.Sleep(7 * time.Second) // what comes late has come, what is detached is done
				out, err = f.act(r)
				if got := said(out, err).word; got != f.again && (f.again != "released" || got != "not_found") {
					r.t.Errorf("again: %q %v, want %q", got, err, f.again)
				}
				time.Sleep(5 * time.Second)
				reservations := 0
				for _, h := range r.hosts {
					reservations += h.view().Reservations
				}
				if want := map[string]int{"yes": 1, "released": 0}[f.again]; reservations != want {
					r.t.Errorf("the hosts hold %d of one key, not %d", reservations, want)
				}
				r.untouched()
			})
		})
	}
}

// TestByHostBehindASilence: the key of an unbooted one moves when its reservation must have
// lapsed; that of a running one when its host is dead. A host back from the dead stops what
// was superseded, and a release behind a silence is carried out.
func TestByHostBehindASilence(t *testing.T) {
	hosts := append(twoHosts(4096), &fakeHost{id: "h3", budget: 4 * gate.GiB})
	aloneIn(t, hosts, func(r *rig) {
		a, b := r.admit("a", "alone", pinned("h1", api.HostPinModePrefer)), r.admit("b", "alone", pinned("h1", api.HostPinModePrefer))
		c := r.admit("c", "alone", pinned("h1", api.HostPinModePrefer))
		r.boot(b)
		r.boot(c)
		synctest.Wait()
		h1 := r.host("h1")
		h1.set(func() { h1.deaf = true })
		time.Sleep(40 * time.Second)
		out, err := r.g.ReleaseByID(r.t.Context(), alice, c.ID, 0)
		r.want("releasing", out, err)
		out, err = r.post("a", "alone", pinned("h1", api.HostPinModePrefer))
		r.want("host_silent", out, err)
		time.Sleep(40 * time.Second)
		out, err = r.post("a", "alone", pinned("h1", api.HostPinModePrefer))
		if got := r.want("yes", out, err); out.Admission != nil && out.Admission.ID == a.ID {
			t.Errorf("not moved: %+v", got)
		}
		out, err = r.post("b", "alone", pinned("h1", api.HostPinModePrefer))
		r.want("running", out, err)
		time.Sleep(pool.HostTTL)
		out, err = r.post("b", "alone", pinned("h1", api.HostPinModePrefer))
		r.want("yes", out, err)
		if n := len(h1.view().Sandboxes); n != 2 {
			t.Errorf("%d run on h1", n)
		}
		h1.set(func() { h1.deaf = false })
		h1.sample()
		time.Sleep(30 * time.Second)
		if n := len(h1.view().Sandboxes); n != 0 {
			t.Errorf("%d still run on h1, superseded or released", n)
		}
		r.untouched()
	})
}

// TestByHostIsNoStranger: what the store knows nothing of, and its host alone records, is
// neither stopped nor alarmed, by the replica that placed it or any other; what only claims
// to be another host's is.
func TestByHostIsNoStranger(t *testing.T) {
	aloneIn(t, oneHost(4096), func(r *rig) {
		a, b := r.admit("a", "alone"), r.admit("b", "alone")
		r.boot(a)
		g2 := r.another()
		time.Sleep(40 * time.Second)
		for _, g := range []*control.Gateway{r.g, g2} {
			out, err := g.Reconcile(r.t.Context(), root, api.ReconcileRequest{StopUnknown: true})
			if err != nil || len(out.Findings) > 0 {
				t.Errorf("%+v %v", out, err)
			}
		}
		if strings.Contains(r.log.String(), "a sandbox runs that should not") {
			t.Error("alarmed")
		}
		r.wantHeld(0, 1, 1)
		_ = b
		if admission.OfHost(a.ID, "h2") || admission.CompareHeld("h2", host.Ref{ID: a.ID, Epoch: 1}, false, true, nil) != admission.Unknown {
			t.Error("another host's is no stranger there")
		}
	})
}

// TestByHostHoldOnExit: its host keeps the place for a restart, as for any other.
func TestByHostHoldOnExit(t *testing.T) {
	aloneIn(t, oneHost(4096), func(r *rig) {
		a := r.admit("k", "keeper-alone")
		r.boot(a)
		synctest.Wait()
		r.host("h1").done(a.ID, 1)
		synctest.Wait()
		time.Sleep(50 * time.Second)
		out, err := heartbeat(r)
		r.want("yes", out, err)
		if denial := r.boot(*out.Admission); denial != "" {
			t.Error(denial)
		}
		out, err = release(r)
		r.want("releasing", out, err)
		synctest.Wait()
		r.untouched()
	})
}
