package control_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
)

// learning is a rig whose hosts are registered, and whose gateway learns.
func learning(t *testing.T, document string, hosts []*fakeHost, test func(*rig), plan ...storetest.Fault) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hosts, plan...)
		r.apply(document)
		for _, h := range hosts {
			life, err := r.memory.Register(t.Context(), h.id)
			r.must(err)
			h.restart(life)
		}
		r.attach()
		ctx, cancel := context.WithCancel(t.Context())
		go r.g.LearnUntil(ctx)
		synctest.Wait()
		test(r)
		cancel()
		r.stop()
	})
}

// ran admits one, boots it, has it hold so much once, and ends it.
func (r *rig) ran(key, class string, resident gate.Bytes, change ...func(*api.AdmissionRequest)) {
	r.t.Helper()
	a := r.admit(key, class, change...)
	r.boot(a)
	h := r.host(a.Host)
	h.step(host.Sample{
		Limits: []gate.Limit{{Name: "machine", Size: h.budget}}, Full: true,
		Sandboxes: []host.Resident{{ID: a.ID, Bytes: resident}},
	})
	h.step(host.Done{ID: a.ID, Epoch: a.Epoch, Reason: "exit 0"})
	synctest.Wait()
}

// charged is what the next one of a class is charged.
func (r *rig) charged(key, class string, change ...func(*api.AdmissionRequest)) int64 {
	r.t.Helper()
	a := r.admit(key, class, change...)
	defer r.g.Release(r.t.Context(), alice, key, 0)
	v := r.host(a.Host).view()
	return v.Account.Reserved.CeilMiB()
}

func (r *rig) template(class, name string) api.TemplateStanding {
	r.t.Helper()
	list, err := r.g.Classes(r.t.Context(), root)
	r.must(err)
	for _, c := range list.Classes {
		for _, t := range c.Templates {
			if c.Name == class && t.Template == name {
				return t
			}
		}
	}
	r.t.Fatalf("no template %s of class %s in %+v", name, class, list)
	return api.TemplateStanding{}
}

// After 30 runs, of two hosts together, the next sandbox of the template is charged what they
// showed; not before, not of another template, and not of a size that never ran.
func TestReserveIsLearned(t *testing.T) {
	learning(t, fleetDocument, twoHosts(64<<10), func(r *rig) {
		if got := r.template("large", "large"); got.State != api.ReserveStatePrior || got.Runs != 0 || got.Enough != 30 || got.ReserveMB != 1024 {
			t.Errorf("before anything ran: %+v", got)
		}
		for i := range 29 {
			at := pinned([]string{"h1", "h2"}[i%2], api.HostPinModeRequire)
			r.ran(fmt.Sprint("k", i), "large", 200*gate.MiB, at)
		}
		time.Sleep(11 * time.Second)
		if got := r.template("large", "large"); got.State != api.ReserveStatePrior || got.Counted != 29 {
			t.Errorf("after 29 runs: %+v", got)
		}
		if mb := r.charged("p", "large"); mb != 1024 {
			t.Errorf("after 29 runs one is charged %d MiB", mb)
		}
		r.ran("k29", "large", 200*gate.MiB)
		time.Sleep(11 * time.Second)
		got := r.template("large", "large")
		if got.State != api.ReserveStateLearned || got.ReserveMB != 200 || got.WouldAdmit.Learned == nil || *got.WouldAdmit.Learned <= 3*got.WouldAdmit.Rule {
			t.Errorf("after 30 runs: %+v", got)
		}
		if mb := r.charged("q", "large"); mb != 200 {
			t.Errorf("after 30 runs one is charged %d MiB", mb)
		}
		other := func(q *api.AdmissionRequest) { q.Template = "other" }
		if mb := r.charged("o", "large", other); mb != 1024 {
			t.Errorf("one of another template is charged %d MiB", mb)
		}
		r.wantHeld(0, 0, 0)
	})
}

// A class that says reserve: fixed keeps its rule, and shows what would be; of stateful ones
// nothing less than their size is ever reserved, however little they touch.
func TestReserveIsNotLearned(t *testing.T) {
	document := strings.Replace(fleetDocument, "{name: large, pool: wide-open,", "{name: large, pool: wide-open, reserve: fixed,", 1)
	learning(t, document, oneHost(64<<10), func(r *rig) {
		for i := range 31 {
			r.ran(fmt.Sprint("k", i), "large", 200*gate.MiB)
			r.ran(fmt.Sprint("s", i), "base", 10*gate.MiB)
			r.ran(fmt.Sprint("m", i), "small", 10*gate.MiB)
		}
		time.Sleep(11 * time.Second)
		if got := r.template("large", "large"); got.State != api.ReserveStateFixed || got.ReserveMB != 1024 || got.LearnedMB == nil || *got.LearnedMB != 200 {
			t.Errorf("fixed: %+v", got)
		}
		if got := r.template("base", "base"); got.State != api.ReserveStateStateful || got.ReserveMB != 1024 || got.LearnedMB != nil {
			t.Errorf("stateful: %+v", got)
		}
		mb := func(n int64) func(*api.AdmissionRequest) {
			return func(q *api.AdmissionRequest) { q.MemoryMB = &n }
		}
		for _, c := range []struct {
			key, class string
			size       int64
			want       int64
		}{{"a", "large", 4096, 1024}, {"b", "base", 1024, 1024}, {"c", "small", 512, 10}, {"d", "small", 4, 4}, {"e", "small", 4096, 1024}} {
			if got := r.charged(c.key, c.class, mb(c.size)); got != c.want {
				t.Errorf("class %s of %d MiB is charged %d, want %d", c.class, c.size, got, c.want)
			}
		}
	})
}

// Runs that peak far above what was predicted have the rule of the class back in force, with a
// line in the log and a count, once.
func TestBrokenPrediction(t *testing.T) {
	learning(t, fleetDocument, oneHost(512<<10), func(r *rig) {
		if n, err := testutil.GatherAndCount(r.metrics, "plimsoll_templates_broken_total"); n < 2 || err != nil {
			t.Errorf("of %d classes something is counted before it happens: %v", n, err)
		}
		for i := range 30 {
			r.ran(fmt.Sprint("k", i), "large", 200*gate.MiB)
		}
		time.Sleep(11 * time.Second)
		for i := range 20 {
			r.ran(fmt.Sprint("b", i), "large", 2*gate.GiB)
			time.Sleep(5 * time.Second)
		}
		time.Sleep(time.Minute)
		got := r.template("large", "large")
		if got.State != api.ReserveStateBroken || got.ReserveMB != 1024 || got.BrokeAt == nil {
			t.Errorf("%+v", got)
		}
		if mb := r.charged("p", "large"); mb != 1024 {
			t.Errorf("one is charged %d MiB", mb)
		}
		if n := testutil.ToFloat64(r.options.Metrics.TemplatesBroken.WithLabelValues("large")); n != 1 {
			t.Errorf("counted %v times", n)
		}
		gauge := strings.NewReader(`# HELP plimsoll_templates Templates of a class of which runs were seen, by what is reserved of its sandboxes: stateful, fixed, prior, learned or broken, of which the last is an alarm.
# TYPE plimsoll_templates gauge
plimsoll_templates{class="large",state="broken"} 1
`)
		if err := testutil.GatherAndCompare(r.metrics, gauge, "plimsoll_templates"); err != nil {
			t.Error(err)
		}
		if n := strings.Count(r.log.String(), "runs peak higher than was predicted"); n != 1 {
			t.Errorf("said %d times", n)
		}
	})
}

// A replica that starts knows what others learned; a host that does not answer holds nobody up,
// and is asked again; its next life adds to the former one.
func TestLearningGoesOn(t *testing.T) {
	learning(t, fleetDocument, twoHosts(64<<10), func(r *rig) {
		for i := range 20 {
			r.ran(fmt.Sprint("k", i), "large", 200*gate.MiB, pinned("h1", api.HostPinModeRequire))
		}
		time.Sleep(11 * time.Second)
		life, err := r.memory.Register(r.t.Context(), "h1")
		r.must(err)
		r.hosts[0].restart(life)
		time.Sleep(11 * time.Second)
		r.hosts[1].set(func() { r.hosts[1].deaf = true })
		for i := range 10 {
			r.ran(fmt.Sprint("n", i), "large", 200*gate.MiB, pinned("h1", api.HostPinModeRequire))
		}
		time.Sleep(30 * time.Second)
		if got := r.template("large", "large"); got.Runs != 30 || got.State != api.ReserveStateLearned {
			t.Errorf("over two lives: %+v", got)
		}
	})
}

// What the store did not write, or wrote without an answer, is told again, and counts once. When
// it cannot be read, what was learned stays in force.
func TestLearningSurvivesTheStore(t *testing.T) {
	learning(t, fleetDocument, oneHost(64<<10), func(r *rig) {
		for i := range 30 {
			r.ran(fmt.Sprint("k", i), "large", 200*gate.MiB)
			if i%10 == 9 {
				time.Sleep(11 * time.Second)
			}
		}
		time.Sleep(11 * time.Second)
		if got := r.template("large", "large"); got.Runs != 30 || got.State != api.ReserveStateLearned {
			t.Errorf("%+v", got)
		}
		r.store.GoAway(true)
		time.Sleep(30 * time.Second)
		r.store.GoAway(false)
		if mb := r.charged("q", "large"); mb != 200 {
			t.Errorf("after the store was away one is charged %d MiB", mb)
		}
	}, storetest.Fault{Call: "Learn", Nth: 1}, storetest.Fault{Call: "Learn", Nth: 2, Persisted: true}, storetest.Fault{Call: "Learned", Nth: 2})
}

// What was admitted under one reserve is shown with that, to whoever asks and however, though one
// that comes now gets another; the reserve of a class that was changed likewise.
func TestAStandingChargeIsItsOwn(t *testing.T) {
	learning(t, fleetDocument, oneHost(64<<10), func(r *rig) {
		old, booted := r.admit("old", "large"), r.admit("booted", "large")
		r.boot(booted)
		for i := range 30 {
			r.ran(fmt.Sprint("k", i), "large", 200*gate.MiB)
		}
		time.Sleep(11 * time.Second)
		next := r.admit("next", "large")
		if old.ChargeMB != 1024 || next.ChargeMB != 200 {
			t.Fatalf("charged %d MiB before, %d MiB now", old.ChargeMB, next.ChargeMB)
		}
		shown := func(how, key string, a api.Admission, err error) {
			t.Helper()
			r.must(err)
			if want := map[string]int64{"old": 1024, "booted": 1024, "next": 200}[key]; a.ChargeMB != want {
				t.Errorf("%s: %s is shown with %d MiB, and has %d", how, key, a.ChargeMB, want)
			}
		}
		for _, a := range []api.Admission{old, booted, next} {
			got, err := r.g.Get(r.t.Context(), alice, a.Key)
			shown("by key", a.Key, got, err)
			got, err = r.g.GetByID(r.t.Context(), alice, a.ID)
			shown("by id", a.Key, got, err)
			again, err := r.post(a.Key, "large")
			shown("asked again", a.Key, *again.Admission, err)
			kept, err := r.g.Heartbeat(r.t.Context(), alice, a.Key)
			shown("kept", a.Key, *kept.Admission, err)
		}
		r.host("h1").set(func() { r.host("h1").deaf = true })
		if got, err := r.g.Get(r.t.Context(), alice, "old"); err != nil || got.ChargeMB != 200 {
			t.Errorf("of a host that does not answer: %+v %v", got, err)
		}
		r.host("h1").set(func() { r.host("h1").deaf = false })
	})
}
