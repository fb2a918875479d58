package control_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
)

// histogram returns the count and the sum of a histogram.
func histogram(t testing.TB, m *prometheus.Registry, name string) (uint64, float64) {
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
	h := families[at].GetMetric()[0].GetHistogram()
	return h.GetSampleCount(), h.GetSampleSum()
}

// TestFirstRefusalToSuccess (the fourth number): per request over all its attempts, by the
// receipt it hands back or by its place in the queue.
func TestFirstRefusalToSuccess(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k0", "solo")
		receipt := ""
		for range 3 {
			_, err := r.post("k1", "solo", func(q *api.AdmissionRequest) { q.Receipt = receipt })
			refusal, _ := api.AsRefusal(err)
			receipt = refusal.Receipt
			time.Sleep(2 * time.Second)
		}
		r.release("k0")
		r.admit("k1", "solo", func(q *api.AdmissionRequest) { q.Receipt = receipt })
		if n, sum := histogram(t, r.metrics, "plimsoll_first_refusal_to_success_seconds"); n != 1 || sum != 6 {
			t.Errorf("refused at 0, 2 and 4 s, admitted at 6: %d, %v s", n, sum)
		}
		r.wait("k2", "solo", pool.ForSlot)
		poll := r.poll(r.t.Context(), "k2", 30*time.Second)
		time.Sleep(4 * time.Second)
		r.release("k1")
		r.answered(poll, "yes")
		if n, sum := histogram(t, r.metrics, "plimsoll_first_refusal_to_success_seconds"); n != 2 || sum != 10 {
			t.Errorf("queued for 4 s: %d, %v s", n, sum)
		}
		// Somebody else's receipt, or a made-up one, counts as none and hurts nobody.
		r.admit("k3", "small", func(q *api.AdmissionRequest) { q.Receipt = receipt })
		r.admit("k4", "small", func(q *api.AdmissionRequest) { q.Receipt = "garbage" })
		if n, _ := histogram(t, r.metrics, "plimsoll_first_refusal_to_success_seconds"); n != 2 {
			t.Errorf("%d", n)
		}
	})
}

// TestHeartbeats keep a reservation for longer than its TTL: same epoch, later expiry,
// another MAC (T42b, T44).
func TestHeartbeats(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		first := r.admit("k", "small")
		last := first
		if first.HeartbeatMS != 20_000 {
			t.Errorf("heartbeat_ms %d", first.HeartbeatMS)
		}
		for range 10 {
			time.Sleep(20 * time.Second)
			out, err := r.g.Heartbeat(r.t.Context(), alice, "k")
			r.want("yes", out, err)
			a := *out.Admission
			if a.Epoch != first.Epoch || !a.ExpiresAt.After(*last.ExpiresAt) || a.Ticket == last.Ticket {
				t.Fatalf("%+v after %+v", a, last)
			}
			last = a
		}
		r.wantHeld(1, 1, 0)
		if d := r.boot(last); d != "" {
			t.Errorf("boot: %s", d)
		}
		synctest.Wait()
		out, err := r.g.Heartbeat(r.t.Context(), alice, "k")
		r.want("running", out, err)
		if d := r.boot(last); d != host.Used {
			t.Errorf("replay: %q", d)
		}
		r.letGo()
	})
}

// TestMoved places an unbooted admission anew, and the old ticket boots nothing (§12.5).
func TestMoved(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		old := r.admit("k", "small")
		time.Sleep(time.Millisecond)
		r.hosts[0].step(host.Release{ID: old.ID, Gen: old.Epoch})
		out, err := r.g.Heartbeat(r.t.Context(), alice, "k") // says why, places nothing
		r.want("reservation_lapsed", out, err)
		out, err = r.g.Attempt(r.t.Context(), alice, "k", 0)
		r.want("yes", out, err)
		if out.Admission.Epoch <= old.Epoch {
			t.Errorf("epoch %d after %d", out.Admission.Epoch, old.Epoch)
		}
		if d := r.boot(old); d != host.Superseded {
			t.Errorf("the old ticket: %q", d)
		}
		if d := r.boot(*out.Admission); d != "" {
			t.Errorf("the new ticket: %q", d)
		}
		r.letGo()
	})
	bubble(t, twoHosts(4096), func(r *rig) {
		old := r.admit("k", "small")
		r.host(old.Host).step(host.SetIntake{Intake: host.IntakeDraining})
		out, err := r.g.Heartbeat(r.t.Context(), alice, "k")
		r.want("host_draining", out, err)
		out, err = r.post("k", "small") // T75: the same key, so the same admission
		r.want("yes", out, err)
		if out.Admission.Host == old.Host || out.Admission.ID != old.ID {
			t.Errorf("%+v after %+v", out.Admission, old)
		}
		if d := r.boot(old); d == "" {
			t.Error("the old ticket booted")
		}
		r.wantHeld(1, 1, 0)
	})
}

// TestSilentHost: behind silence a stateless admission moves once its reservation must have
// lapsed, and a stateful one stays.
func TestSilentHost(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		pin := pinned("h1", api.HostPinModePrefer)
		r.admit("k", "small", pin)
		r.admit("db", "base", pin)
		h := r.host("h1")
		h.set(func() { h.deaf = true })
		out, err := r.g.Attempt(r.t.Context(), alice, "k", 0)
		r.want("host_silent", out, err) // T93: within a bound
		time.Sleep(31 * time.Second)
		if a := r.admit("k2", "small", pin); a.Host != "h2" { // T52, T53
			t.Errorf("placed on %s", a.Host)
		}
		out, err = r.g.Attempt(r.t.Context(), alice, "k", 0)
		r.want("host_silent", out, err)
		time.Sleep(31 * time.Second)
		out, err = r.g.Attempt(r.t.Context(), alice, "k", 0)
		r.want("yes", out, err)
		out, err = r.g.Attempt(r.t.Context(), alice, "db", 0)
		r.want("host_silent", out, err)
		if list, err := r.g.Hosts(r.t.Context()); err != nil || len(list.Hosts) != 2 || list.Hosts[0].ID != "h1" || *list.Hosts[0].HeardMSAgo < 60_000 {
			t.Errorf("a silent host is still listed: %+v %v", list, err)
		}
		// Back from the dead: it let go of what lapsed, and the store learns it.
		h.set(func() { h.deaf = false })
		h.step(host.Tick{})
		time.Sleep(foundWithin)
		if row := r.row("db"); row.State != pool.Expired {
			t.Errorf("db is %s", row.State)
		}
		r.letGo()
	})
}

// TestReleases (T30, T90, T10): waiting, unbooted, running; twice each.
func TestReleases(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("unbooted", "solo")
		r.wait("waiting", "solo", pool.ForSlot)
		r.boot(r.admit("running", "small"))
		synctest.Wait()
		r.release("waiting")
		r.release("waiting")
		r.release("unbooted")
		r.release("unbooted")
		if d := r.hosts[0].view().Reservations; d != 0 {
			t.Errorf("%d reservations", d)
		}
		h := r.hosts[0]
		h.set(func() { h.stays = true })
		for range 2 {
			out, err := r.g.Release(r.t.Context(), alice, "running", 0)
			r.want("releasing", out, err)
		}
		out, err := r.post("running", "small")
		r.want("releasing", out, err) // 503: the key's former admission is not over
		r.wantHeld(1, 0, 1)
		r.exit("running")
		r.release("running")
		r.wantHeld(0, 0, 0)
		a := r.admit("running", "small") // T24: wake = admit, charged again
		if a.ChargeMB != 128 {
			t.Errorf("charged %d", a.ChargeMB)
		}
	})
}

// TestReleasingIsPursued: the caller is gone, the host was not reached; reconciling asks again.
func TestReleasingIsPursued(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.boot(r.admit("k", "small"))
		synctest.Wait()
		r.hosts[0].fail("Release", "failed")
		out, err := r.g.Release(r.t.Context(), alice, "k", 0)
		r.want("releasing", out, err)
		time.Sleep(foundWithin)
		r.wantHeld(0, 0, 0)
	})
}

// TestHostForgets: its state is lost, so nothing that it held is there any more (T32, T111).
func TestHostForgets(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.boot(r.admit("ran", "small"))
		r.admit("unbooted", "small")
		synctest.Wait()
		r.hosts[0].restart(2000)
		time.Sleep(foundWithin)
		r.wantHeld(0, 0, 0)
		if a, b := r.row("ran").State, r.row("unbooted").State; a != pool.Released || b != pool.Expired {
			t.Errorf("ran is %s, unbooted is %s", a, b)
		}
		r.admit("unbooted", "small")
	})
}

// TestConfiguration applies by compare-and-set; caps change live; a bad document, a lost
// answer and a removed class harm nobody (F06, T95).
func TestConfiguration(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		ctx := r.t.Context()
		r.admit("k1", "solo")
		r.wait("k2", "solo", pool.ForSlot)
		poll := r.poll(ctx, "k2", 30*time.Second)
		time.Sleep(time.Second)
		wider := strings.Replace(fleetDocument, "{name: one, cap: 1,", "{name: one, cap: 2,", 1)
		if _, err := r.g.Apply(ctx, "root", api.ConfigChange{Generation: 7, Document: wider}); said2(err) != "generation_conflict" {
			t.Errorf("stale: %v", err)
		}
		if _, err := r.g.Apply(ctx, "root", api.ConfigChange{Generation: 1, Document: wider + "\nbogus: 1"}); err == nil || said2(err) == "unavailable" {
			t.Errorf("bad: %v", err)
		}
		c, err := r.g.Apply(ctx, "root", api.ConfigChange{Generation: 1, Document: wider})
		if err != nil || c.Generation != 2 || c.AppliedBy != "root" || c.AppliedAt == nil {
			t.Errorf("%+v %v", c, err)
		}
		r.answered(poll, "yes") // the new cap is in force at once
		// The same change once more: its answer may have been lost.
		if c, err := r.g.Apply(ctx, "root", api.ConfigChange{Generation: 1, Document: wider}); err != nil || c.Generation != 2 {
			t.Errorf("again: %+v %v", c, err)
		}
		without := strings.Replace(wider, "  - {name: solo, pool: one, memory: 512MiB, reserve_floor: 64MiB}\n", "", 1)
		if _, err := r.g.Apply(ctx, "root", api.ConfigChange{Generation: 2, Document: without}); err != nil {
			t.Fatal(err)
		}
		out, err := r.post("k1", "solo")
		r.want("unknown_class", out, err)
		out, err = r.g.Heartbeat(ctx, alice, "k1")
		r.want("yes", out, err)
		r.host("h1").step(host.Release{ID: out.Admission.ID, Gen: out.Admission.Epoch})
		out, err = r.g.Attempt(ctx, alice, "k1", 0)
		r.want("yes", out, err)
		if out.Admission.ChargeMB != 512 { // nobody knows its reserve any more
			t.Errorf("charged %d", out.Admission.ChargeMB)
		}
		r.release("k1")
	})
	for name, fault := range map[string]storetest.Fault{"failed": {Call: "Apply", Nth: 1}, "persisted": {Call: "Apply", Nth: 1, Persisted: true}} {
		bubble(t, oneHost(4096), func(r *rig) {
			change := api.ConfigChange{Generation: 1, Document: fleetDocument + "\n# more\n"}
			_, err := r.g.Apply(r.t.Context(), "root", change)
			if want := map[string]string{"failed": "unavailable", "persisted": ""}[name]; said2(err) != want {
				t.Errorf("%s: %v", name, err)
			}
			if c, err := r.g.Apply(r.t.Context(), "root", change); err != nil || c.Generation != 2 {
				t.Errorf("%s, again: %+v %v", name, c, err)
			}
		}, fault)
	}
}

func said2(err error) string {
	if err == nil {
		return ""
	}
	if refusal, ok := api.AsRefusal(err); ok {
		return string(refusal.Code)
	}
	return err.Error()
}

// TestNotLoaded (T95): nothing is admitted before limits are loaded.
func TestNotLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, oneHost(4096))
		r.attach()
		for i := range 50 {
			out, err := r.post(fmt.Sprint("k", i), "small")
			r.want("unavailable", out, err)
		}
		if err := r.g.Ready(t.Context()); said2(err) != "unavailable" {
			t.Errorf("ready: %v", err)
		}
		r.apply(fleetDocument)
		if err := r.g.Ready(t.Context()); err != nil {
			t.Errorf("ready: %v", err)
		}
		r.admit("k1", "small")
		r.stop()
		if err := r.g.Ready(t.Context()); said2(err) != "no_healthy_agents" {
			t.Errorf("ready, with a silent host: %v", err)
		}
	})
}

// TestStrangers see nothing of each other, and no answer but the caller's own has a ticket.
func TestStrangers(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		ctx := r.t.Context()
		a := r.admit("k", "small")
		for name, call := range map[string]func(who *config.Consumer) error{
			"get":       func(who *config.Consumer) error { _, err := r.g.Get(ctx, who, "k"); return err },
			"by id":     func(who *config.Consumer) error { _, err := r.g.GetByID(ctx, who, a.ID); return err },
			"attempt":   func(who *config.Consumer) error { _, err := r.g.Attempt(ctx, who, "k", 0); return err },
			"heartbeat": func(who *config.Consumer) error { _, err := r.g.Heartbeat(ctx, who, "k"); return err },
			"release":   func(who *config.Consumer) error { _, err := r.g.Release(ctx, who, "k", 0); return err },
			"by its id": func(who *config.Consumer) error { _, err := r.g.ReleaseByID(ctx, who, a.ID, 0); return err },
		} {
			if got := said2(call(bob)); got != "not_found" {
				t.Errorf("%s: %s", name, got)
			}
		}
		r.wantHeld(1, 1, 0)
		if got, err := r.g.Get(ctx, alice, "k"); err != nil || got.Ticket != "" {
			t.Errorf("%+v %v", got, err)
		}
		if got, err := r.g.GetByID(ctx, root, a.ID); err != nil || got.Ticket != "" || got.Key != "k" {
			t.Errorf("%+v %v", got, err)
		}
		if strings.Contains(r.log.String(), a.Ticket) || strings.Contains(r.log.String(), "plt1.") {
			t.Error("a ticket is in the log")
		}
	})
}

// deafFeed is a link's feed that says nothing: another replica hears what its sweeps ask.
type deafFeed struct{}

func (deafFeed) Next(ctx context.Context) (host.News, error) {
	<-ctx.Done()
	return host.News{}, ctx.Err()
}

// TestReplicas (T04, T09, T10, T75): four replicas that see nothing of each other's reserves, one
// host with room for eight, and one pool; what they admit together fits, and one key that
// all of them are asked for is one admission.
func TestReplicas(t *testing.T) {
	bubble(t, oneHost(256+8*128), func(r *rig) {
		replicas := []*control.Gateway{r.g}
		for range 3 {
			g, err := control.New(r.options)
			r.must(err)
			r.must(g.Load(r.t.Context()))
			go g.Attach(r.hosts[0].ctx, r.hosts[0], deafFeed{})
			replicas = append(replicas, g)
		}
		synctest.Wait()
		all := func(class string, key func(i, n int) string) map[string]int {
			var mu sync.Mutex
			var wg sync.WaitGroup
			words := map[string]int{}
			for i, g := range replicas {
				for n := range 8 {
					wg.Go(func() {
						q := api.AdmissionRequest{Key: key(i, n), Class: class, Tenant: "alice"}
						got := said(g.Admit(r.t.Context(), alice, q))
						mu.Lock()
						defer mu.Unlock()
						words[got.word]++
					})
				}
			}
			wg.Wait()
			return words
		}
		if words := all("solo", func(int, int) string { return "same" }); words["yes"] != 32 {
			t.Errorf("32 calls with one key: %v", words)
		}
		r.wantHeld(1, 1, 0)
		r.release("same")
		if words := all("small", func(i, n int) string { return fmt.Sprint(i, ".", n) }); words["yes"] != 8 || words["no_capacity"] != 24 {
			t.Errorf("32 creates where 8 fit: %v", words)
		}
		r.wantHeld(8, 8, 0)
		r.letGo()
	})
}

// TestHangUps: a caller that is gone in the middle leaks nothing (T35), and what it had got
// is still its own.
func TestHangUps(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		ctx, hangUp := context.WithCancel(r.t.Context())
		hangUp()
		q := api.AdmissionRequest{Key: "k", Class: "small", Tenant: "alice"}
		out, err := r.g.Admit(ctx, alice, q)
		r.want("yes", out, err)
		again := r.admit("k", "small")
		if again.ID != out.Admission.ID || again.Epoch != out.Admission.Epoch {
			t.Errorf("%+v after %+v", again, out.Admission)
		}
		r.admit("k1", "solo")
		r.wait("k2", "solo", pool.ForSlot)
		if _, err := r.g.Attempt(ctx, alice, "k2", time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if row := r.row("k2"); row.PresentUntil != 0 {
			t.Errorf("%+v", row)
		}
		if _, err := r.g.Release(ctx, alice, "k1", 0); err != nil {
			t.Error(err)
		}
		r.letGo()
	})
}

// TestOtherStates asks for an attempt and a heartbeat in every state.
func TestOtherStates(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		ctx := r.t.Context()
		both := func(key, want string) {
			t.Helper()
			for range 2 { // neither changes anything
				out, err := r.g.Attempt(ctx, alice, key, 10*time.Second)
				r.want(want, out, err)
				out, err = r.g.Heartbeat(ctx, alice, key)
				r.want(want, out, err)
			}
		}
		both("never", "not_found")
		a := r.admit("k", "small")
		both("k", "yes")
		r.boot(a)
		synctest.Wait()
		both("k", "running")
		r.hosts[0].set(func() { r.hosts[0].stays = true })
		r.g.Release(ctx, alice, "k", 0)
		both("k", "releasing")
		r.exit("k")
		both("k", "not_found")
		if row := r.row("k"); row.State != pool.Released {
			t.Errorf("%s", row.State)
		}
		r.admit("lapsing", "small")
		time.Sleep(2 * time.Minute)
		both("lapsing", "not_found")
		if row := r.row("lapsing"); row.State != pool.Expired {
			t.Errorf("%s", row.State)
		}
	})
}

// TestUnreadableConfiguration: a document of another version is in the store; the one that
// was loaded stays in force here, and an older one never replaces a newer.
func TestUnreadableConfiguration(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		ctx := r.t.Context()
		fleet := r.g.Fleet()
		c, err := r.memory.Config(ctx)
		r.must(err)
		c.Document = "version: 99"
		_, _, err = r.memory.Apply(ctx, c, fleet.Settings())
		r.must(err)
		if err := r.g.Load(ctx); err == nil {
			t.Error("loaded what it cannot read")
		}
		time.Sleep(20 * time.Second) // the sweep tries, too
		if r.g.Fleet() != fleet {
			t.Error("the former configuration is no longer in force")
		}
		r.admit("k", "small")
		r.apply(fleetDocument)
		if r.g.Fleet() == fleet {
			t.Error("the newest configuration is not in force")
		}
	})
}
