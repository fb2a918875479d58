package web_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
)

// decision asks for one over the wire, against the contract.
func (r *rig) decision(who, id string) (d api.Decision) {
	r.t.Helper()
	r.must(json.Unmarshal(r.call(who, "GET", "/v1/decisions/"+id, "").Body, &d))
	return d
}

// TestDecisions asks for what each kind of answer was: its consumer and an operator get it, nobody
// else does, and what was asked wrongly has a name too.
func TestDecisions(t *testing.T) {
	r := newRig(t, options{})
	var yes api.Admission
	r.must(json.Unmarshal(r.create(201, post("k1", "solo")).Body, &yes))
	var place api.Waiting
	r.must(json.Unmarshal(r.create(202, post("k2", "solo", `,"mode":"queue"`)).Body, &place))
	for code, p := range map[api.Code]api.Problem{
		api.PoolFull:       r.refused(api.PoolFull, "alice", "POST", "/v1/admissions", post("k3", "solo")),
		api.UnknownClass:   r.refused(api.UnknownClass, "alice", "POST", "/v1/admissions", post("k4", "none")),
		api.TooLarge:       r.refused(api.TooLarge, "alice", "POST", "/v1/admissions", post("k5", "small", `,"memory_mb":1`)),
		api.Infeasible:     r.refused(api.Infeasible, "alice", "POST", "/v1/admissions", post("k6", "small", `,"memory_mb":65536`)),
		api.KeyConflict:    r.refused(api.KeyConflict, "alice", "POST", "/v1/admissions", post("k1", "small")),
		api.InvalidRequest: r.refused(api.InvalidRequest, "alice", "POST", "/v1/admissions", "garbage"),
	} {
		d := r.decision("alice", p.DecisionID)
		if d.Code != code || d.Consumer != "alice" || d.Line == "" || d.Told.Status != int64(p.Status) || d.Told.RetryAfterMS != p.RetryAfterMS || len(d.Changes) == 0 {
			t.Errorf("%s: %+v", code, d)
		}
		if same := r.decision("olga", p.DecisionID); same.ID != d.ID || same.Line != d.Line {
			t.Errorf("%s, of an operator: %+v", code, same)
		}
		r.refused(api.NotFound, "bob", "GET", "/v1/decisions/"+p.DecisionID, "")
	}
	for id, outcome := range map[string]api.DecisionOutcome{yes.DecisionID: api.DecisionOutcomeAdmitted, place.DecisionID: api.DecisionOutcomeWaiting} {
		if d := r.decision("alice", id); d.Outcome != outcome || d.Line == "" || d.Ask == nil {
			t.Errorf("%+v", d)
		}
		r.refused(api.NotFound, "bob", "GET", "/v1/decisions/"+id, "")
	}
	stranger := r.refused(api.Unauthenticated, "", "POST", "/v1/admissions", post("k7", "small"))
	if d := r.decision("olga", stranger.DecisionID); d.Consumer != "" || d.Code != api.Unauthenticated {
		t.Errorf("%+v", d)
	}
	r.refused(api.NotFound, "alice", "GET", "/v1/decisions/"+stranger.DecisionID, "")
	r.refused(api.InvalidRequest, "alice", "GET", "/v1/decisions", "")
}

// TestDecisionsOfAKey lists what a key was told. The clock of this rig's store stands, so that their order tells nothing.
func TestDecisionsOfAKey(t *testing.T) {
	r := newRig(t, options{})
	r.create(201, post("k1", "solo"))
	r.create(202, post("k2", "solo", `,"mode":"queue"`))
	r.call("alice", "POST", "/v1/admissions/k2/attempt", "")
	r.call("alice", "DELETE", "/v1/admissions/k1", "")
	r.call("alice", "POST", "/v1/admissions/k2/attempt", "")
	told := func(who, path string) (outcomes []api.DecisionOutcome) {
		var list api.DecisionList
		r.must(json.Unmarshal(r.call(who, "GET", path, "").Body, &list))
		for _, d := range list.Decisions {
			outcomes = append(outcomes, d.Outcome)
		}
		slices.Sort(outcomes)
		return outcomes
	}
	want := []api.DecisionOutcome{api.DecisionOutcomeAdmitted, api.DecisionOutcomeWaiting, api.DecisionOutcomeWaiting}
	for who, n := range map[string]int{"alice": 3, "olga": 3, "bob": 0} {
		if got := told(who, "/v1/decisions?key=k2"); !slices.Equal(got, want[:n]) {
			t.Errorf("%s: %v", who, got)
		}
	}
	if got := told("alice", "/v1/decisions?key=k2&limit=2"); len(got) != 2 {
		t.Errorf("two of them: %v", got)
	}
}
