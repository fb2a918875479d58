package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
)

// no is a create that must be refused, and its decision's name.
func (r *rig) no(key, class string, change ...func(*api.AdmissionRequest)) *api.Refusal {
	r.t.Helper()
	_, err := r.post(key, class, change...)
	refusal, ok := api.AsRefusal(err)
	if !ok || refusal.DecisionID == "" {
		r.t.Fatalf("%s: %v, want a no with a name", key, err)
	}
	return refusal
}

// decision asks for one that must be there.
func (r *rig) decision(g *control.Gateway, who *config.Consumer, id string) api.Decision {
	r.t.Helper()
	d, err := g.Decision(r.t.Context(), who, id)
	r.must(err)
	return d
}

func bringing(receipt string) func(*api.AdmissionRequest) {
	return func(q *api.AdmissionRequest) { q.Receipt = receipt }
}

// TestDecisionOfANo asks for a refusal at once where it was made, and a second later at another
// replica: whose no it was, which hosts were left out, the nearest miss, and what would admit.
func TestDecisionOfANo(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		for i := range 7 {
			r.admit(fmt.Sprint("full", i), "large") // 1 GiB each, of 3,840 MiB on each host
			if i == 5 {
				break
			}
		}
		refusal := r.no("late", "large")
		d := r.decision(r.g, alice, refusal.DecisionID)
		if d.Code != api.NoCapacity || d.Scope != api.ScopeFleet || d.Key != "late" || d.Class != "large" || d.Pool != "wide-open" || d.Tenant != "alice" || d.Outcome != api.DecisionOutcomeRefused {
			t.Errorf("%+v", d)
		}
		if len(d.Excluded) != 1 || d.Excluded[0].Reason != "no_room" || d.Excluded[0].Count != 2 || !slices.Equal(d.Excluded[0].Hosts, []string{"h1", "h2"}) {
			t.Errorf("excluded: %+v", d.Excluded)
		}
		if !strings.Contains(d.Nearest, "lacks 256 MiB of 1,024") || len(d.Changes) == 0 || d.Line == "" {
			t.Errorf("nearest %q, line %q, changes %+v", d.Nearest, d.Line, d.Changes)
		}
		if d.Ask == nil || d.Ask.MemoryMB != 4096 || d.Ask.NeedMB != 1024 || d.Attempts != 1 || d.FirstRefusedAt == nil || !d.FirstRefusedAt.Equal(d.At) {
			t.Errorf("ask %+v, %d attempts, first %v", d.Ask, d.Attempts, d.FirstRefusedAt)
		}
		if d.Told.Status != 503 || d.Told.RetryAfterMS != refusal.RetryAfter.Milliseconds() || d.Told.RetryAt == nil || !d.Told.RetryAt.Equal(d.At.Add(refusal.RetryAfter)) {
			t.Errorf("told %+v, of a hint of %v", d.Told, refusal.RetryAfter)
		}
		time.Sleep(time.Second)
		if there := r.decision(r.another(), alice, refusal.DecisionID); there.Nearest != d.Nearest || there.Line != d.Line || !there.At.Equal(d.At) {
			t.Errorf("at another replica: %+v", there)
		}
		r.letGo()
	})
}

// TestDecisionIsItsConsumers hides a decision from others, and not from operators.
func TestDecisionIsItsConsumers(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		id := r.no("k", "nowhere").DecisionID
		_, err := r.g.Decision(t.Context(), bob, id)
		_, errNone := r.g.Decision(t.Context(), bob, "dec-none")
		hidden, ok := api.AsRefusal(err)
		if !ok || hidden.Code != api.NotFound || strings.ReplaceAll(hidden.Detail, id, "dec-none") != errNone.(*api.Refusal).Detail {
			t.Errorf("another consumer is told %v, and of none %v", err, errNone)
		}
		if d := r.decision(r.g, root, id); d.Consumer != "alice" || d.Code != api.UnknownClass {
			t.Errorf("an operator sees %+v", d)
		}
		list, err := r.g.Decisions(t.Context(), bob, "k", 10)
		if err != nil || len(list.Decisions) != 0 {
			t.Errorf("the key of another consumer: %+v %v", list, err)
		}
	})
}

// TestDecisionTellsWhatCameOfIt follows a request that is refused at two replicas and then admitted:
// how often it asked, how long it took from the first no, and what became of it.
func TestDecisionTellsWhatCameOfIt(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("first", "solo")
		one := r.no("k", "solo")
		time.Sleep(3 * time.Second)
		_, err := r.another().Admit(t.Context(), alice, api.AdmissionRequest{Key: "k", Class: "solo", Tenant: "alice", Receipt: one.Receipt})
		two, _ := api.AsRefusal(err)
		time.Sleep(2 * time.Second)
		_, err = r.g.Release(t.Context(), alice, "first", 0)
		r.must(err)
		yes := r.admit("k", "solo", bringing(two.Receipt))
		r.boot(yes)
		time.Sleep(time.Second)
		d := r.decision(r.g, alice, one.DecisionID)
		if d.Attempts != 1 || d.ToSuccessMS == nil || *d.ToSuccessMS != 5000 || len(d.Since) < 2 {
			t.Fatalf("the first no: %+v", d)
		}
		if got := r.decision(r.g, alice, yes.DecisionID); got.Attempts != 2 || got.ToSuccessMS == nil || *got.ToSuccessMS != 5000 || got.Outcome != api.DecisionOutcomeAdmitted || !got.FirstRefusedAt.Equal(d.At) {
			t.Errorf("the yes: %+v", got)
		}
		var what []string
		for _, e := range d.Since {
			what = append(what, string(e.What))
		}
		if got := strings.Join(what, ", "); got != "asked, admitted, started" || d.Since[0].DecisionID != two.DecisionID || d.Since[1].DecisionID != yes.DecisionID {
			t.Errorf("since: %s", got)
		}
		list, err := r.g.Decisions(t.Context(), root, "k", 10)
		if err != nil || len(list.Decisions) != 3 {
			t.Errorf("%d decisions of the key: %v", len(list.Decisions), err)
		}
	})
}

// TestDecisionOfAPlace asks for what a waiter was told, and for the yes that ended its wait.
func TestDecisionOfAPlace(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("first", "solo")
		out, err := r.post("k", "solo", queue)
		r.must(err)
		d := r.decision(r.g, alice, out.Waiting.DecisionID)
		if d.Outcome != api.DecisionOutcomeWaiting || d.Told.Status != 202 || d.Told.Position != 1 || d.Told.WaitingFor != api.WaitingForSlot || d.AdmissionID != out.Waiting.ID || d.Ask.Mode != api.WaitModeQueue {
			t.Errorf("%+v", d)
		}
		time.Sleep(4 * time.Second)
		_, err = r.g.Release(t.Context(), alice, "first", 0)
		r.must(err)
		got, err := r.g.Attempt(t.Context(), alice, "k", 0)
		r.must(err)
		if yes := r.decision(r.g, alice, got.Admission.DecisionID); yes.ToSuccessMS == nil || *yes.ToSuccessMS != 4000 {
			t.Errorf("%+v", yes)
		}
	})
}

// TestDecisionOfAYes has one name as often as it is given, and is told by the admission's row; by
// the store once the key is admitted anew.
func TestDecisionOfAYes(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		first := r.admit("k", "small")
		if again := r.admit("k", "small"); again.DecisionID != first.DecisionID {
			t.Errorf("%s, and when it was given again %s", first.DecisionID, again.DecisionID)
		}
		if d := r.decision(r.another(), alice, first.DecisionID); d.Outcome != api.DecisionOutcomeAdmitted || d.Host != "h1" || d.AdmissionID != first.ID || d.Epoch != first.Epoch {
			t.Errorf("%+v", d)
		}
		_, err := r.g.Release(t.Context(), alice, "k", 0)
		r.must(err)
		time.Sleep(time.Second)
		second := r.admit("k", "small")
		if second.DecisionID == first.DecisionID {
			t.Errorf("two admissions, one decision %s", first.DecisionID)
		}
		d := r.decision(r.g, alice, first.DecisionID)
		if d.Epoch != first.Epoch || len(d.Since) == 0 || d.Since[len(d.Since)-1].What != api.DecisionEventWhatAdmitted {
			t.Errorf("the first, once the key was admitted anew: %+v", d)
		}
		for _, id := range []string{"yes-1-nobody", "yes-0-" + first.ID, "yes--" + first.ID, "yes-x-" + first.ID, "yes-99-" + first.ID, "yes-"} {
			if _, err := r.g.Decision(t.Context(), root, id); err == nil {
				t.Errorf("%s is found", id)
			}
		}
	})
}

// TestDecisionsWaitForTheStore keeps decisions that the store would not take, and lets no answer
// wait for them; what is too many is dropped, and counted.
func TestDecisionsWaitForTheStore(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		id := r.no("k", "nowhere").DecisionID
		r.store.GoAway(true)
		began := time.Now()
		for i := range 5000 {
			_, err := r.post(fmt.Sprint("k", i), "nowhere")
			if !isCode(err, api.UnknownClass) {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("5,000 refusals waited %v for a store that is away", took)
		}
		time.Sleep(time.Second)
		if dropped := testutil.ToFloat64(r.options.Metrics.DecisionsDropped); dropped != 5001-4096 {
			t.Errorf("%v were dropped", dropped)
		}
		r.store.GoAway(false)
		time.Sleep(30 * time.Second)
		d, ok, err := r.memory.Decision(t.Context(), id)
		if err != nil || !ok || d.Told.Code != api.UnknownClass {
			t.Errorf("once the store was back: %+v %v %v", d, ok, err)
		}
		list, err := r.memory.Decisions(t.Context(), "alice", "k4000", 10)
		if err != nil || len(list) != 1 {
			t.Errorf("the 4,001st: %d %v", len(list), err)
		}
	})
}

// TestDecisionsWrittenTwice loses the answer of a write: each is there once all the same.
func TestDecisionsWrittenTwice(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.no("k", "nowhere")
		time.Sleep(time.Second)
		if n := r.store.Calls("Decide"); n != 2 {
			t.Errorf("written %d times", n)
		}
		list, err := r.g.Decisions(t.Context(), alice, "k", 10)
		if err != nil || len(list.Decisions) != 1 {
			t.Errorf("%+v %v", list, err)
		}
	}, storetest.Fault{Call: "Decide", Nth: 1, Persisted: true})
}

// TestStrangersDecisions keeps a few noes to those whom nobody knows, and no more: they must not
// push out those of others.
func TestStrangersDecisions(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		found := 0
		for range 100 {
			no := r.g.Refused(api.Refuse(api.Unauthenticated, "no token"), nil)
			if d, err := r.g.Decision(t.Context(), root, no.DecisionID); err == nil && d.Consumer == "" {
				found++
			}
		}
		if found != 20 {
			t.Errorf("%d of 100 are kept within a minute", found)
		}
	})
}

// TestRefusalsShareWhatTheySaw refuses a crowd for which one sweep is made: they rest on the same.
func TestRefusalsShareWhatTheySaw(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		for i := range 6 {
			r.admit(fmt.Sprint("full", i), "large")
		}
		if words := r.crowd(20, "large"); words["no_capacity"] != 20 {
			t.Fatal(words)
		}
		time.Sleep(time.Second)
		seen := map[string]int{}
		for i := range 20 {
			all, err := r.memory.Decisions(t.Context(), "alice", fmt.Sprint("k", i), 10)
			if err != nil || len(all) != 1 || all[0].Evidence == nil || len(all[0].Evidence.Near) != 2 {
				t.Fatalf("k%d: %+v %v", i, all, err)
			}
			seen[fmt.Sprintf("%+v", *all[0].Evidence)]++
		}
		if len(seen) != 1 {
			t.Errorf("20 refusals at once rest on %d: %v", len(seen), seen)
		}
		r.letGo()
	})
}

// TestDecisionsByHost explains what no store records: the no as any other, and the yes by the host
// that holds it, also while the store is away.
func TestDecisionsByHost(t *testing.T) {
	aloneIn(t, oneHost(4096), func(r *rig) {
		id := r.no("k", "alone", func(q *api.AdmissionRequest) { q.Host = &api.HostPin{ID: "none", Mode: api.HostPinModeRequire} }).DecisionID
		yes := r.admit("k", "alone")
		for _, away := range []bool{false, true} {
			r.store.GoAway(away)
			if d := r.decision(r.g, alice, yes.DecisionID); d.Outcome != api.DecisionOutcomeAdmitted || d.Host != "h1" || d.AdmissionID != yes.ID || d.Key != "k" {
				t.Errorf("%+v", d)
			}
			if d := r.decision(r.g, alice, id); d.Code != api.Infeasible || len(d.Since) != 1-btoi(away) {
				t.Errorf("%+v", d)
			}
		}
		r.store.GoAway(false)
		time.Sleep(time.Second)
		if d := r.decision(r.another(), alice, yes.DecisionID); d.Key != "k" || d.Consumer != "alice" {
			t.Errorf("at another replica: %+v", d)
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestDecisionOfWhoIsOnThisMachine: an operator finds a yes by its key, also that of whoever no
// configuration names.
func TestDecisionOfWhoIsOnThisMachine(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		_, err := r.g.Admit(t.Context(), root, api.AdmissionRequest{Key: "mine", Class: "small"})
		r.must(err)
		list, err := r.g.Decisions(t.Context(), root, "mine", 10)
		r.must(err)
		if len(list.Decisions) != 1 || list.Decisions[0].Outcome != api.DecisionOutcomeAdmitted {
			t.Errorf("%+v", list)
		}
	})
}
