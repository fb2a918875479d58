package web_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

func (r *rig) admittable(class string) api.AdmittableList {
	r.t.Helper()
	list, err := r.sdk("bob").Admittable(r.t.Context(), class)
	r.must(err)
	return *list
}

// The rung "advise": a scheduler of others reads what each host's own agent said. T13: that
// is the one figure; there is no ratio for anybody to apply again.
func TestAdmittable(t *testing.T) {
	r := newRig(t, options{})
	list := r.admittable("small")
	if len(list.Hosts) != 1 || list.Class != "small" || list.At.IsZero() {
		t.Fatalf("%+v", list)
	}
	was := list.Hosts[0]
	if !was.Candidate || was.AdmittableMB <= 0 || was.Intake != "open" || was.State != "active" || was.NeedMB != 128 ||
		*was.Fits != was.AdmittableMB/128 || was.Stamp.Sequence <= 0 || was.HeardMSAgo == nil {
		t.Errorf("%+v", was)
	}
	h := api.Host{}
	r.call("olga", "GET", "/v1/hosts/"+was.ID, "").into(&h)
	if h.AdmittableMB != was.AdmittableMB || h.Sequence < was.Stamp.Sequence || h.Incarnation != was.Stamp.Incarnation {
		t.Errorf("the host says %d under %d, the list %+v", h.AdmittableMB, h.Sequence, was)
	}
	r.create(201, `{"key":"k","class":"large"}`)
	now := r.admittable("").Hosts[0]
	if now.AdmittableMB != was.AdmittableMB-3072 || now.Fits != nil || now.NeedMB != 0 || now.Stamp.Sequence <= was.Stamp.Sequence {
		t.Errorf("%+v after %+v", now, was)
	}
	r.refused(api.UnknownClass, "bob", "GET", "/v1/admittable?class=none", "")
}

func observations(list ...string) string {
	return `{"observations":[` + strings.Join(list, ",") + `]}`
}

// TestObservations: decisions of others are judged by what was known then, and nothing is
// reserved by it.
func TestObservations(t *testing.T) {
	r := newRig(t, options{})
	id, before := r.admittable("").Hosts[0].ID, r.admittable("").Hosts[0]
	fits := before.AdmittableMB / 1024
	var list []string
	for i := range fits + 1 {
		list = append(list, fmt.Sprintf(`{"key":"k%d","host":%q,"decision":"yes","memory_mb":1024,"stateful":true}`, i, id))
	}
	bob := r.sdk("bob")
	var batch api.ObservationBatch
	r.must(json.Unmarshal([]byte(observations(list...)), &batch))
	taken, err := bob.Observe(t.Context(), batch.Observations...)
	if r.must(err); taken.Taken != fits+1 || taken.Judged != fits+1 || len(taken.Refused) != 0 {
		t.Errorf("%+v", taken)
	}
	if now := r.admittable("").Hosts[0]; now.AdmittableMB != before.AdmittableMB {
		t.Errorf("telling reserved something: %d of %d are left", now.AdmittableMB, before.AdmittableMB)
	}
	ends := api.Observation{Host: id, Key: fmt.Sprint("k", fits), Outcome: api.OutcomeFailed}
	taken, err = bob.Observe(t.Context(), ends, api.Observation{Host: id, Key: "k0", Outcome: api.OutcomeOom}, api.Observation{Host: id, Key: "none", Outcome: api.OutcomeFitted})
	if r.must(err); taken.Taken != 2 || len(taken.Refused) != 1 || taken.Refused[0].Index != 2 {
		t.Errorf("%+v", taken)
	}
	c, err := r.sdk("olga").Comparison(t.Context())
	r.must(err)
	if c.Decisions != fits+1 || c.WrongYes != 1 || c.Prevented != 1 || c.WrongNo != 0 || c.TheirWrongYes != 2 || c.Late != 1 || len(c.Cells) != 4 {
		t.Errorf("%+v", c)
	}
	if yes := c.Cells[0]; yes.They != api.YesNoYes || yes.We != api.YesNoYes || yes.Decisions != fits || yes.Oom != 1 {
		t.Errorf("%+v", yes)
	}
	i := slices.IndexFunc(c.Examples, func(e api.ComparedDecision) bool { return e.Key == ends.Key })
	if i < 0 || c.Examples[i].WhyNot != "no_room" || c.Examples[i].SetAsideMB != fits*1024 || c.Examples[i].NeedMB != 1024 || c.Examples[i].AdmittableMB != before.AdmittableMB {
		t.Errorf("%+v", c.Examples)
	}
	reset, err := r.sdk("olga").ResetComparison(t.Context())
	r.must(err)
	if c, err = r.sdk("olga").Comparison(t.Context()); err != nil || c.Decisions != 0 || reset.Decisions != 0 || len(c.Examples) != 0 || c.Late != 0 {
		t.Errorf("%+v %v", c, err)
	}
}

func TestObservationsAreStrict(t *testing.T) {
	r := newRig(t, options{})
	id := r.admittable("").Hosts[0].ID
	for _, body := range []string{
		`{"observations":[]}`, `{}`, observations(slices.Repeat([]string{`{"key":"k","host":"h","decision":"no","memory_mb":1}`}, 257)...),
		observations(`{"key":"k","host":"h","decisoin":"yes"}`), observations(`{"key":"k","host":"h","decision":"yes","memory_mb":1e300}`),
		observations(`{"key":"k","host":"h","decision":"yes","cpu":NaN}`), observations(`{"key":"a b","host":"h","decision":"yes"}`),
		observations(`{"key":"k","host":"a b","decision":"yes"}`), observations(`{"key":"k","host":"h","decision":"maybe"}`),
		observations(`{"key":"k","host":"h","outcome":"fine"}`), observations(`{"key":"k","host":"h","decision":"yes","class":"a b"}`),
		observations(`{"key":"k","host":"h","decision":"no","memory_mb":1}`, `{"key":"k","host":""}`),
	} {
		r.refused(api.InvalidRequest, "bob", "POST", "/v1/observations", body)
	}
	old := r.g.Wall().Add(-2 * time.Hour).Format(time.RFC3339)
	for _, tt := range []struct {
		o    api.Observation
		says string
	}{
		{api.Observation{Key: "k", Host: id}, "say a decision"},
		{api.Observation{Key: "k", Host: id, Outcome: "oom", Stateful: true}, "belong to a decision"},
		{api.Observation{Key: "k", Host: id, Decision: "no", Outcome: "oom", MemoryMB: num(1)}, "an outcome is of a yes"},
		{api.Observation{Key: "k", Host: id, Decision: "yes"}, "memory_mb"},
		{api.Observation{Key: "k", Host: id, Decision: "yes", MemoryMB: num(-1)}, "memory_mb"},
		{api.Observation{Key: "k", Host: id, Decision: "yes", MemoryMB: num(1), CPU: ratio(-1)}, "cpu"},
		{api.Observation{Key: "k", Host: id, Decision: "yes", Class: "none"}, "no class"},
		{api.Observation{Key: "k", Host: id, Decision: "yes", Class: "small", Stateful: true}, "the class says that"},
		{api.Observation{Key: "k", Host: id, Decision: "yes", Class: "small", MemoryMB: num(1)}, "memory_mb"},
		{api.Observation{Key: "k", Host: id, Decision: "yes", MemoryMB: num(1), Labels: api.Labels{"a b": "c"}}, "labels"},
	} {
		body, err := json.Marshal(api.ObservationBatch{Observations: []api.Observation{tt.o}})
		r.must(err)
		var taken api.ObservationsTaken
		r.call("bob", "POST", "/v1/observations", string(body)).into(&taken)
		if taken.Taken != 0 || len(taken.Refused) != 1 || !strings.Contains(taken.Refused[0].Why, tt.says) {
			t.Errorf("%+v: %+v", tt.o, taken)
		}
	}
	var taken api.ObservationsTaken
	r.call("bob", "POST", "/v1/observations", observations(fmt.Sprintf(`{"key":"k","host":%q,"decision":"yes","memory_mb":1,"at":%q}`, id, old))).into(&taken)
	if len(taken.Refused) != 1 || !strings.Contains(taken.Refused[0].Why, "last hour") {
		t.Errorf("%+v", taken)
	}
	// A host that was never heard is no error, and judged by nobody.
	r.call("bob", "POST", "/v1/observations", observations(`{"key":"k","host":"nobody","decision":"yes","class":"small"}`)).into(&taken)
	if c, err := r.sdk("olga").Comparison(t.Context()); err != nil || c.Unjudged != 1 || c.Decisions != 0 || taken.Judged != 0 {
		t.Errorf("%+v %v", c, err)
	}
}

func num(n int64) *int64       { return &n }
func ratio(n float64) *float64 { return &n }

// A host that is registered and was never heard is in the list, and says why it takes nothing.
func TestAdmittableOfAHostThatWasNeverHeard(t *testing.T) {
	r := newRig(t, options{})
	r.join(r.joinToken(`{"host":"h2"}`).JoinToken, "h2")
	r.deed("h2", "cordon", `{}`)
	list := r.admittable("small").Hosts
	if len(list) != 2 || list[1].ID != "h2" || list[1].Candidate || list[1].WhyNot != "unheard" || list[1].State != "cordoned" || list[1].HeardMSAgo != nil || list[1].Fits != nil {
		t.Errorf("%+v", list)
	}
}
