package web_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/control"
)

// mayCall says who may call each operation, by its lowest role; anybody with a token for "".
var mayCall = map[string]string{
	"createAdmission": "consumer", "listAdmissions": "consumer", "getAdmission": "consumer", "releaseAdmission": "consumer",
	"attemptAdmission": "consumer", "heartbeatAdmission": "consumer", "getAdmissionByID": "consumer", "releaseAdmissionByID": "consumer",
	"listClasses": "operator", "whatIf": "operator",
	"listPools": "consumer", "listAdmittable": "consumer", "observe": "consumer", "reportObservations": "operator", "resetObservations": "operator", "whoami": "", "listDecisions": "", "getDecision": "",
	"createAdmissions": "consumer", "heartbeatAdmissionByID": "consumer",
	"listHosts": "operator", "getHost": "operator", "getConfig": "operator", "listConfigs": "operator", "listDeeds": "operator",
	"listReplicas": "operator", "overridePool": "operator", "reconcile": "operator", "holdPool": "operator", "resumePool": "operator",
	"putConfig": "admin", "getAudienceKey": "admin",
	"getMode": "operator", "compareModes": "operator", "setMode": "operator", "bypassHost": "operator",
	"cordonHost": "operator", "uncordonHost": "operator", "drainHost": "operator", "buryHost": "operator",
	"listJoinTokens": "admin", "createJoinToken": "admin", "revokeJoinToken": "admin", "joinHost": "nobody", "registerHost": "host",
	"redeemTicket": "substrate", "verifyTicket": "substrate", "reportRunning": "substrate",
}

// who has each role, so that everybody else lacks it.
var holders = map[string][]string{
	"consumer": {"chat", "olga", "root"}, "operator": {"olga", "root"}, "admin": {"root"}, "substrate": {"provider", "root"},
	"": {"chat", "provider", "olga", "root"},
}

// atPath is a path of the contract with something in each place.
func atPath(path string) string {
	return strings.NewReplacer("{key}", "k", "{id}", "i", "{pool}", "browser", "{name}", "cloud").Replace(path)
}

var bodies = map[string]string{
	"createAdmission": `{"key":"k","class":"chrome"}`, "putConfig": `{"generation":0,"document":"x"}`,
	"overridePool": `{"cap":1,"for_ms":60000,"reason":"test"}`, "holdPool": `{"reason":"test"}`, "resumePool": `{"reason":"test"}`,
	"setMode": `{"mode":"shadow","scope":"pool","name":"nowhere","reason":"test"}`, "bypassHost": `{"for_ms":0,"reason":"test"}`,
	"whatIf": `{"class":"chrome","count":1}`, "reconcile": `{"dry_run":true}`, "observe": `{"observations":[{"key":"k","host":"h","decision":"no","memory_mb":1}]}`, "cordonHost": `{}`, "uncordonHost": `{}`, "drainHost": `{"reason":"test"}`, "buryHost": `{"reason":"test"}`, "createJoinToken": `{}`, "redeemTicket": `{"ticket":"x"}`, "verifyTicket": `{"ticket":"x"}`, "reportRunning": `{"running":[]}`,
}

// TestRoles calls every operation of the contract as everybody.
func TestRoles(t *testing.T) {
	r := newCloud(t)
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	r.must(err)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if slices.Contains(op.Tags, "operations") {
				continue
			}
			role, ok := mayCall[op.OperationID]
			if !ok {
				t.Errorf("%s: nobody said who may call it", op.OperationID)
			}
			if role == "nobody" || role == "host" {
				continue // see TestHostsOwnRoutes
			}
			at := atPath(path)
			r.refused(api.Unauthenticated, "", method, at, bodies[op.OperationID])
			for _, who := range holders[""] {
				if !slices.Contains(holders[role], who) {
					r.refused(api.Forbidden, who, method, at, bodies[op.OperationID])
				} else if a := r.call(who, method, at, bodies[op.OperationID]); a.Status >= 400 && a.problem().Code == api.Forbidden {
					t.Errorf("%s %s as %s: %s", method, at, who, a.Body)
				}
			}
		}
	}
}

func (r *rig) pool(who, name string) api.Pool {
	r.t.Helper()
	var list api.PoolList
	r.call(who, "GET", "/v1/pools", "").into(&list)
	for _, p := range list.Pools {
		if p.Name == name {
			return p
		}
	}
	r.t.Fatalf("no pool %s", name)
	return api.Pool{}
}

// TestOverride: a cap for a while is in force at once, told with every no, audited, and over
// by itself.
func TestOverride(t *testing.T) {
	r := newCloud(t)
	olga := r.sdk("olga")
	r.admit("eve", "k1", "one")
	more, err := olga.OverridePool(t.Context(), "solo", 3, 2*time.Hour, "a fair")
	r.must(err)
	if !more.Was.Capped || more.Was.Cap != 1 || more.Pool.Cap != 3 || *more.Pool.ConfiguredCap != 1 || more.Pool.Busy != 1 {
		t.Errorf("%+v", more)
	}
	if o := more.Pool.Override; o.Cap != 3 || o.By != "olga" || o.Reason != "a fair" || o.Until.Sub(o.Since) != 2*time.Hour {
		t.Errorf("%+v", o)
	}
	r.admit("eve", "k2", "one")
	held, err := olga.HoldPool(t.Context(), "solo", time.Hour, "it burns")
	r.must(err)
	if held.Was.Cap != 3 || !held.Pool.Capped || held.Pool.Cap != 0 || held.Pool.Busy != 2 { // nobody is evicted
		t.Errorf("%+v", held)
	}
	p := r.refused(api.PoolFull, "eve", "POST", "/v1/admissions", `{"key":"k3","class":"one"}`)
	if !strings.Contains(p.Detail, "held by olga until ") || !strings.Contains(p.Detail, "(it burns)") || p.Override == nil || p.Override.Cap != 0 || *p.Cap != 0 {
		t.Errorf("%+v", p)
	}
	a := r.call("eve", "POST", "/v1/admissions", `{"key":"k4","class":"one","mode":"queue"}`)
	if a.Status != 202 || !strings.Contains(string(a.Body), `"waiting_for":"slot"`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	r.clock.Advance(time.Hour)
	if p := r.pool("chat", "solo"); p.Cap != 1 || p.Override != nil || p.Busy != 2 || p.Waiting != 1 { // over by itself
		t.Errorf("%+v", p)
	}
	for range 2 { // there is nothing to take back: that is no fault
		back, err := olga.ResumePool(t.Context(), "solo", "it is out")
		r.must(err)
		if back.Pool.Override != nil || back.Pool.Cap != 1 || back.Was.Cap != 1 {
			t.Errorf("%+v", back)
		}
	}
	deeds, err := olga.Audit(t.Context(), 4)
	r.must(err)
	var told []string
	for _, d := range deeds.Deeds {
		told = append(told, d.By+": "+d.What+" ("+d.Reason+")")
	}
	want := []string{"olga: pool resume solo (it is out)", "olga: pool resume solo (it is out)", "olga: pool hold solo --for 1h0m0s (it burns)", "olga: pool set solo --cap 3 --for 2h0m0s (a fair)"}
	if !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}

// TestCeiling: the sum never passes the ceiling, at no moment of any override; and what does
// not make it worse is not refused.
func TestCeiling(t *testing.T) {
	r := newCloud(t) // caps 4, 2 and 1 of 12
	r.refused(api.NotFound, "olga", "POST", "/v1/pools/nosuch/override", `{"cap":1,"for_ms":60000,"reason":"x"}`)
	r.refused(api.NotFound, "olga", "POST", "/v1/pools/nosuch/hold", `{"reason":"x"}`)
	r.refused(api.NotFound, "olga", "POST", "/v1/pools/nosuch/resume", `{"reason":"x"}`)
	p := r.refused(api.OverCeiling, "olga", "POST", "/v1/pools/solo/override", `{"cap":7,"for_ms":60000,"reason":"x"}`)
	if *p.Limit != 12 || *p.Use != 13 || p.Scope != api.ScopeFleet || !strings.Contains(p.Detail, "13 of 12") || !strings.Contains(p.Remedy, "1 fewer") {
		t.Errorf("%+v", p)
	}
	olga := r.sdk("olga")
	_, err := olga.HoldPool(t.Context(), "browser", 0, "make room")
	r.must(err)
	_, err = olga.OverridePool(t.Context(), "solo", 10, time.Hour, "use the room")
	r.must(err)
	p = r.refused(api.OverCeiling, "olga", "POST", "/v1/pools/browser/resume", `{"reason":"x"}`)
	if *p.Use != 16 {
		t.Errorf("%+v", p)
	}
	_, err = olga.OverridePool(t.Context(), "solo", 9, time.Hour, "a little less")
	r.must(err)
	body := fmt.Sprintf(`{"generation":1,"document":%q}`, strings.Replace(cloud(), "cap: 2,", "cap: 4,", 1))
	if p := r.refused(api.OverCeiling, "root", "PUT", "/v1/config", body); !strings.Contains(p.Detail, "plimsoll pools") {
		t.Errorf("%+v", p)
	}
	r.clock.Advance(time.Hour)
	_, err = olga.ResumePool(t.Context(), "browser", "room again")
	r.must(err)
}

func TestOverrideRequests(t *testing.T) {
	r := newCloud(t)
	for _, c := range []struct{ path, body, field string }{
		{"override", ``, "empty"},
		{"override", `{}`, "cap"},
		{"override", `{"cap":1,"reason":"x"}`, "for_ms"},
		{"override", `{"cap":0,"for_ms":60000,"reason":"x"}`, "cap"},
		{"override", `{"cap":-1,"for_ms":60000,"reason":"x"}`, "cap"},
		{"override", `{"cap":1000000001,"for_ms":60000,"reason":"x"}`, "cap"},
		{"override", `{"cap":"1","for_ms":60000,"reason":"x"}`, "cap"},
		{"override", `{"cap":1,"for_ms":999,"reason":"x"}`, "for_ms"},
		{"override", `{"cap":1,"for_ms":9999999999999,"reason":"x"}`, "for_ms"},
		{"override", `{"cap":1,"for_ms":60000}`, "reason"},
		{"override", `{"cap":1,"for_ms":60000,"reason":"a\nb"}`, "reason"},
		{"override", `{"cap":1,"for_ms":60000,"reason":"x","until":"tomorrow"}`, "until"},
		{"hold", `{}`, "reason"},
		{"hold", `{"reason":""}`, "reason"},
		{"hold", `{"reason":"x","for_ms":0}`, "for_ms"},
		{"hold", `{"reason":"x","cap":3}`, "cap"},
		{"resume", `{"reason":1}`, "reason"},
		{"resume", `{"reason":"` + strings.Repeat("x", 257) + `"}`, "reason"},
	} {
		p := r.refused(api.InvalidRequest, "olga", "POST", "/v1/pools/browser/"+c.path, c.body)
		if !strings.Contains(p.Detail, c.field) || strings.Contains(p.Detail, "int64") {
			t.Errorf("%s %s: %q does not name %s", c.path, c.body, p.Detail, c.field)
		}
	}
	if p := r.pool("olga", "browser"); p.Override != nil {
		t.Errorf("%+v", p)
	}
}

// TestShares: a no says which share it is about, and what is set aside for others.
func TestShares(t *testing.T) {
	r := newCloud(t) // browser: 4, of them 1 for chat; ci at most 2
	r.admit("ci", "k1", "chrome")
	r.admit("ci", "k2", "chrome")
	p := r.refused(api.PoolFull, "ci", "POST", "/v1/admissions", `{"key":"k3","class":"chrome"}`)
	if s := p.Share; s == nil || s.Consumer != "ci" || *s.Max != 2 || s.Held != 2 || !strings.Contains(p.Detail, "share of consumer ci holds 2, its most") {
		t.Errorf("%+v %+v", p.Share, p)
	}
	r.admit("eve", "k1", "chrome")
	p = r.refused(api.PoolFull, "eve", "POST", "/v1/admissions", `{"key":"k2","class":"chrome"}`)
	if p.Share != nil || !strings.Contains(p.Detail, "1 free reserved for others") || *p.PoolBusy != 3 || *p.Cap != 4 {
		t.Errorf("%+v", p)
	}
	var w api.Waiting
	r.call("ci", "POST", "/v1/admissions", `{"key":"k4","class":"chrome","mode":"queue"}`).into(&w)
	if w.WaitingFor != api.WaitingForSlot || w.Share == nil || w.Share.Held != 2 {
		t.Errorf("%+v", w)
	}
	r.admit("chat", "k1", "chrome") // at its first attempt: what is reserved is never lent
	all := r.pool("olga", "browser")
	if len(all.Shares) != 2 || all.Shares[0].Held != 1 || all.Shares[0].Reserved != 1 || all.Shares[1].Held != 2 || all.Shares[1].Max == nil {
		t.Errorf("%+v", all.Shares)
	}
	want := map[string]api.Occupancy{"chat": {Busy: 1}, "ci": {Busy: 2, Waiting: 1}, "eve": {Busy: 1}}
	for name, o := range want {
		if all.Consumers[name] != o {
			t.Errorf("%s: %+v", name, all.Consumers)
		}
	}
	mine := r.pool("ci", "browser")
	if len(mine.Consumers) != 1 || mine.Consumers["ci"] != want["ci"] || len(mine.Shares) != 1 || mine.Shares[0].Consumer != "ci" || mine.Busy != 4 || mine.Waiting != 1 {
		t.Errorf("ci sees %+v", mine)
	}
	if mine.Placement != api.PlacementNone || mine.Audience != "cloud" || mine.SlotTTLMS != 600_000 || mine.TicketTTLMS != 600_000 {
		t.Errorf("%+v", mine)
	}
}

// TestHistory: former configurations are there to look at and to go back to, by compare-and-set.
func TestHistory(t *testing.T) {
	r := newCloud(t)
	root := r.sdk("root")
	r.clock.Advance(time.Second)
	_, err := root.PutConfig(t.Context(), api.ConfigChange{Generation: 1, Document: strings.Replace(cloud(), "cap: 4", "cap: 3", 1)})
	r.must(err)
	list, err := root.Configs(t.Context(), 0)
	r.must(err)
	if len(list.Configs) != 2 || list.Configs[0].Generation != 2 || list.Configs[0].AppliedBy != "root" || !list.Configs[0].AppliedAt.After(list.Configs[1].AppliedAt) {
		t.Errorf("%+v", list)
	}
	if one, err := root.Configs(t.Context(), 1); err != nil || len(one.Configs) != 1 || one.Configs[0].Generation != 2 {
		t.Errorf("%+v, %v", one, err)
	}
	first, err := root.ConfigAt(t.Context(), 1)
	if err != nil || first.Document != cloud() || first.Generation != 1 {
		t.Errorf("%+v, %v", first, err)
	}
	back, err := root.Rollback(t.Context(), 1)
	if err != nil || back.Generation != 3 || back.Document != cloud() || r.pool("olga", "browser").Cap != 4 {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := root.Rollback(t.Context(), 9); !errors.Is(err, api.NotFound) {
		t.Error(err)
	}
	for _, bad := range []string{"config?generation=0", "config?generation=-1", "config?generation=x", "configs?limit=0", "audit?limit=1001", "audit?limit=x"} {
		r.refused(api.InvalidRequest, "olga", "GET", "/v1/"+bad, "")
	}
	deeds, err := root.Audit(t.Context(), 0)
	r.must(err)
	if len(deeds.Deeds) != 3 || deeds.Deeds[0].What != "config apply, generation 3" || deeds.Deeds[0].By != "root" {
		t.Errorf("%+v", deeds)
	}
}

func TestReplicas(t *testing.T) {
	r := newCloud(t)
	r.must(r.store.Attest(t.Context(), control.Replica{ID: "b", Address: "10.0.0.2:7070", Version: "1", Keys: "k2,k1"}))
	r.clock.Advance(time.Minute)
	r.must(r.store.Attest(t.Context(), control.Replica{ID: "a"}))
	list, err := r.sdk("olga").Replicas(t.Context())
	r.must(err)
	if len(list.Replicas) != 2 || list.Replicas[0].ID != "a" || list.Replicas[0].HeardMSAgo != 0 {
		t.Fatalf("%+v", list)
	}
	if b := list.Replicas[1]; b.HeardMSAgo != 60_000 || b.Address != "10.0.0.2:7070" || !slices.Equal(b.KeyIDs, []string{"k2", "k1"}) {
		t.Errorf("%+v", b)
	}
}

// TestOperatorsWithoutAStore: not now, with nothing of ours in the answer.
func TestOperatorsWithoutAStore(t *testing.T) {
	r := newCloud(t)
	for _, c := range []struct{ breaks, method, path, body string }{
		{"Override", "POST", "/v1/pools/solo/override", bodies["overridePool"]},
		{"Override", "POST", "/v1/pools/solo/hold", bodies["holdPool"]},
		{"Lines", "POST", "/v1/pools/solo/hold", bodies["holdPool"]},
		{"List", "GET", "/v1/pools", ""},
		{"Learned", "GET", "/v1/classes", ""},
		{"Hosts", "GET", "/v1/modes", ""},
		{"Audit", "GET", "/v1/audit", ""},
		{"Configs", "GET", "/v1/configs", ""},
		{"ConfigAt", "GET", "/v1/config?generation=1", ""},
		{"Replicas", "GET", "/v1/replicas", ""},
		{"Now", "GET", "/v1/replicas", ""},
		{"List", "POST", "/v1/reconcile", bodies["reconcile"]},
		{"Pulse", "POST", "/v1/reconcile", bodies["reconcile"]},
		{"Host", "GET", "/v1/hosts/host-1", ""},
		{"Hosts", "POST", "/v1/reconcile", bodies["reconcile"]},
	} {
		r.store.breaks(func(call string) error {
			if call == c.breaks {
				return errors.New("the disk is full")
			}
			return nil
		})
		if p := r.refused(api.Unavailable, "olga", c.method, c.path, c.body); strings.Contains(p.Detail, "disk") {
			t.Errorf("%s: %q", c.path, p.Detail)
		}
	}
}
