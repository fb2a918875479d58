package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// TestRedeem goes from the ticket to the running slot, which the store's word describes.
func TestRedeem(t *testing.T) {
	r := newCloud(t)
	a := r.admit("ci", "k1", "chrome")
	if a.Host != "" || a.Audience != "cloud" || a.Ticket == "" || a.LiveUntil == nil || a.HeartbeatMS <= 0 || a.HeartbeatMS > 200_000 {
		t.Fatalf("%+v", a)
	}
	var seen api.Redemption
	r.call("provider", "POST", "/v1/tickets:verify", ticketBody(a.Ticket, "vm-1")).into(&seen)
	if seen.State != api.AdmissionStateAdmitted || seen.ID != a.ID {
		t.Errorf("verified: %+v", seen)
	}
	if got := r.call("ci", "GET", "/v1/admissions/k1", "").admission(); got.State != api.AdmissionStateAdmitted {
		t.Errorf("verifying changed it: %+v", got)
	}
	first := r.redeem("provider", a.Ticket, "vm-1")
	if first.LiveForMS <= 590_000 || first.LiveForMS > 600_000 || first.HeartbeatMS <= 0 || first.HeartbeatMS > 200_000 || !first.ExpiresAt.Equal(*a.ExpiresAt) {
		t.Errorf("%+v", first)
	}
	first.LiveForMS, first.HeartbeatMS = 0, 0
	want := api.Redemption{
		ID: a.ID, Epoch: a.Epoch, Consumer: "ci", Key: "k1", Pool: "browser", Class: "chrome", Template: "chrome", Tenant: "ci",
		Audience: "cloud", Instance: "vm-1", State: api.AdmissionStateRunning, MemoryMB: 512, CPU: 1, ExpiresAt: first.ExpiresAt,
	}
	if first != want {
		t.Errorf("%+v, want %+v", first, want)
	}
	if again := r.redeem("provider", a.Ticket, "vm-1"); again.ID != a.ID { // T75: the answer was lost
		t.Errorf("%+v", again)
	}
	got := r.call("ci", "GET", "/v1/admissions/k1", "").admission()
	if got.State != api.AdmissionStateRunning || got.Instance != "vm-1" || got.StartedAt == nil {
		t.Errorf("%+v", got)
	}
	r.rejects(ticket.Replayed, "provider", a.Ticket, "vm-2")
	if p := r.rejects(ticket.Replayed, "root", a.Ticket, ""); !strings.Contains(p.Detail, "vm-1") { // T50: names who has it
		t.Errorf("%q", p.Detail)
	}
}

// TestTicketReasons has each reason said, and the store's clock alone say what is over: the
// replica's is an hour wrong.
func TestTicketReasons(t *testing.T) {
	r := newRig(t, options{noHost: true, document: cloud(), wall: -time.Hour})
	a := r.admit("chat", "k1", "chrome")
	r.rejects(ticket.Missing, "provider", "", "vm-1")
	r.rejects(ticket.Malformed, "provider", "plm1.x", "vm-1")
	r.rejects(ticket.Malformed, "provider", strings.Repeat("x", 5000), "vm-1")
	r.rejects(ticket.Forged, "provider", altered(a.Ticket, 60), "vm-1")
	r.rejects(ticket.OtherHost, "stranger", a.Ticket, "vm-1")
	for name, change := range map[string]func(*ticket.Claims){
		"consumer": func(c *ticket.Claims) { c.Consumer = "ci" }, "key": func(c *ticket.Claims) { c.Key = "k2" },
		"pool": func(c *ticket.Claims) { c.Pool = "solo" }, "class": func(c *ticket.Claims) { c.Class = "one" },
		"tenant": func(c *ticket.Claims) { c.Tenant = "ci" }, "memory": func(c *ticket.Claims) { c.Memory *= 2 },
	} {
		t.Run("other "+name, func(*testing.T) { r.rejects(ticket.OtherKey, "provider", r.forge(a.Ticket, "cloud", change), "vm-1") })
	}
	for _, change := range []func(*ticket.Claims){func(c *ticket.Claims) { c.AdmissionID = "adm-none" }, func(c *ticket.Claims) { c.Epoch++ }} {
		p := r.refused(api.ReservationLapsed, "provider", "POST", "/v1/tickets:redeem", ticketBody(r.forge(a.Ticket, "cloud", change), "vm-1"))
		if p.Remedy == "" {
			t.Errorf("%+v", p)
		}
	}
	r.clock.Advance(10*time.Minute + pool.Skew)
	if a := r.call("provider", "POST", "/v1/tickets:verify", ticketBody(a.Ticket, "vm-1")); a.Status != 200 {
		t.Errorf("in its last moment: %d %s", a.Status, a.Body)
	}
	r.clock.Advance(time.Millisecond)
	r.rejects(ticket.Expired, "provider", a.Ticket, "vm-1")
	fresh := r.call("chat", "POST", "/v1/admissions/k1/heartbeat", "").admission()
	r.rejects(ticket.Expired, "provider", a.Ticket, "vm-1") // never extended in place
	r.redeem("provider", fresh.Ticket, "vm-1")
	r.rejects(ticket.Replayed, "provider", fresh.Ticket, "vm-2")
	r.call("chat", "DELETE", "/v1/admissions/k1", "")
	r.rejects(ticket.Released, "provider", fresh.Ticket, "vm-1")
	anew := r.admit("chat", "k1", "one") // the same key, of another class
	r.rejects(ticket.Superseded, "provider", fresh.Ticket, "vm-1")
	r.redeem("provider", anew.Ticket, "vm-1")
	for _, why := range ticket.Reasons() {
		if r.metric(`plimsoll_tickets_rejected_total\{reason="`+why.String()+`"\}`) == "" {
			t.Errorf("%s is not counted", why)
		}
	}
	for _, text := range []string{a.Ticket, fresh.Ticket, anew.Ticket} {
		if strings.Contains(r.log.String(), text[len(text)-24:]) {
			t.Error("a ticket is in the log")
		}
	}
}

// TestOneAudienceForgesForItselfAlone: trap 11. The lab's key makes nothing that boots in the
// cloud, not even of the cloud's admissions.
func TestOneAudienceForgesForItselfAlone(t *testing.T) {
	r := newCloud(t)
	a := r.admit("ci", "k1", "chrome")
	stolen := r.forge(a.Ticket, "lab", func(*ticket.Claims) {})
	r.rejects(ticket.OtherHost, "provider", stolen, "vm-1")
	r.rejects(ticket.OtherHost, "stranger", stolen, "vm-1") // proven, and the row is not the lab's
	r.redeem("provider", a.Ticket, "vm-1")
}

// TestAudienceKey: an admin gets what verifies the audience's tickets, and nobody else.
func TestAudienceKey(t *testing.T) {
	r := newCloud(t)
	a := r.admit("ci", "k1", "chrome")
	got := r.call("root", "GET", "/v1/audiences/cloud/key", "")
	keys, err := ticket.ParseAudienceKeys(got.Body)
	if err != nil || got.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%v, %v", err, got.Header)
	}
	if _, err := keys.Verify(ticket.Text(a.Ticket), ticket.Expect{Consumer: "ci"}); err != nil {
		t.Error(err)
	}
	var file api.AudienceKeysFile
	got.into(&file)
	if log := r.log.String(); strings.Contains(log, file.Keys[0].Secret) || !strings.Contains(log, "handed out") {
		t.Error("the log has the key, or not that it was handed out")
	}
	r.refused(api.NotFound, "root", "GET", "/v1/audiences/h1/key", "")
	r.refused(api.NotFound, "root", "GET", "/v1/audiences/nosuch/key", "")
}

// TestSubstrateRequests: bodies are bounded and strict, and errors name the field.
func TestSubstrateRequests(t *testing.T) {
	r := newCloud(t)
	long := strings.Repeat("x", 129)
	for _, c := range []struct{ path, body, field string }{
		{"/v1/tickets:redeem", ``, "empty"},
		{"/v1/tickets:redeem", `[]`, "object"},
		{"/v1/tickets:redeem", `{"ticket":1}`, "ticket"},
		{"/v1/tickets:redeem", `{"ticket":"x","audience":"cloud"}`, "audience"},
		{"/v1/tickets:redeem", `{"ticket":"x","instance":"` + long + `"}`, "instance"},
		{"/v1/tickets:verify", `{"ticket":"x","instance":"a\nb"}`, "instance"},
		{"/v1/pools/browser/running", `{}`, "running"},
		{"/v1/pools/browser/running", `{"running":null}`, "running"},
		{"/v1/pools/browser/running", `{"running":{}}`, "running"},
		{"/v1/pools/browser/running", `{"running":[1]}`, "running"},
		{"/v1/pools/browser/running", `{"running":[{"id":"a"},{}]}`, "running[1]"},
		{"/v1/pools/browser/running", `{"running":[{"id":"a","epoch":-1}]}`, "running[0].epoch"},
		{"/v1/pools/browser/running", `{"running":[{"id":"` + long + `"}]}`, "running[0].id"},
		{"/v1/pools/browser/running", `{"running":[{"instance":"` + long + `"}]}`, "running[0].instance"},
		{"/v1/pools/browser/running", `{"running":[{"id":"a","why":1}]}`, "why"},
		{"/v1/pools/browser/running", `{"running":[],"complete":"yes"}`, "complete"},
	} {
		p := r.refused(api.InvalidRequest, "provider", "POST", c.path, c.body)
		if !strings.Contains(p.Detail, c.field) || strings.Contains(p.Detail, "int64") || strings.Contains(p.Detail, "api.") {
			t.Errorf("%s %.60s: %q does not name %s", c.path, c.body, p.Detail, c.field)
		}
	}
	r.refused(api.BodyTooLarge, "provider", "POST", "/v1/tickets:redeem", `{"ticket":"`+strings.Repeat("x", 2<<20)+`"}`)
	r.refused(api.BodyTooLarge, "provider", "POST", "/v1/pools/browser/running", `{"running":[{"id":"`+strings.Repeat("x", 5<<20)+`"}]}`)
}

func (r *rig) report(who, poolName string, q api.RunningReport) (v api.RunningVerdict) {
	r.t.Helper()
	body, err := json.Marshal(q)
	r.must(err)
	a := r.call(who, "POST", "/v1/pools/"+poolName+"/running", string(body))
	if a.Status != 200 {
		r.t.Fatalf("%s: %d %s", body, a.Status, a.Body)
	}
	a.into(&v)
	return v
}

// TestReports: what is listed lives, what has no slot is named with the reason, and absence
// ends nothing.
func TestReports(t *testing.T) {
	r := newCloud(t)
	byID, byName, byBoth := r.admit("chat", "k1", "chrome"), r.admit("ci", "k2", "chrome"), r.admit("eve", "k3", "chrome")
	r.redeem("provider", byID.Ticket, "vm-1")
	r.redeem("provider", byName.Ticket, "vm-2")
	r.redeem("provider", byBoth.Ticket, "vm-3")
	gone := r.admit("ci", "k4", "chrome")
	r.call("ci", "DELETE", "/v1/admissions/k4", "")
	moved := r.admit("eve", "k5", "one")
	r.call("eve", "DELETE", "/v1/admissions/k5", "")
	anew := r.admit("eve", "k5", "one")
	if anew.Epoch <= moved.Epoch {
		t.Fatal(anew.Epoch, moved.Epoch)
	}
	foreign := r.admit("ci", "k6", "bench")
	v := r.report("provider", "browser", api.RunningReport{Complete: true, Running: []api.RunningSandbox{
		{ID: byID.ID},
		{Instance: "vm-2"},
		{ID: byBoth.ID, Epoch: byBoth.Epoch, Instance: "vm-3"},
		{ID: byID.ID, Epoch: byID.Epoch}, // twice
		{ID: gone.ID, Epoch: gone.Epoch}, // released
		{ID: "adm-none"},
		{Instance: "vm-9"},                       // never admitted
		{ID: foreign.ID},                         // the lab's
		{ID: byName.ID, Instance: "vm-8"},        // booted from a copy of the ticket
		{ID: byName.ID, Epoch: byName.Epoch + 1}, // made up
	}})
	var why []string
	for _, o := range v.OutOfGate {
		why = append(why, string(o.Why))
	}
	if got, want := strings.Join(why, " "), "duplicate released unknown unknown other_pool other_instance unknown"; v.Renewed != 3 || got != want || v.OutOfGateCount != 7 || v.MissingCount != 0 {
		t.Errorf("%+v: %s, want %s", v, got, want)
	}
	if got := r.metric(`plimsoll_out_of_gate\{pool="browser"\}`); !strings.HasSuffix(got, " 7") {
		t.Errorf("the gauge is %q", got)
	}
	v = r.report("provider", "solo", api.RunningReport{Running: []api.RunningSandbox{{ID: moved.ID, Epoch: moved.Epoch}}})
	if len(v.OutOfGate) != 1 || v.OutOfGate[0].Why != api.OutOfGateWhySuperseded {
		t.Errorf("%+v", v)
	}

	v = r.report("provider", "browser", api.RunningReport{Complete: true, Running: []api.RunningSandbox{{Instance: "vm-2"}}})
	if v.MissingCount != 2 || v.Missing[0].ID == v.Missing[1].ID || v.Missing[0].Instance == "" || v.Missing[0].StartedAt.IsZero() {
		t.Errorf("%+v", v)
	}
	for _, key := range []string{"chat k1", "eve k3"} { // T57: absence from a list is never death
		who, key, _ := strings.Cut(key, " ")
		if a := r.call(who, "GET", "/v1/admissions/"+key, "").admission(); a.State != api.AdmissionStateRunning {
			t.Errorf("%s: %+v", key, a)
		}
	}
	var list api.PoolList
	r.call("olga", "GET", "/v1/pools", "").into(&list)
	if p := list.Pools[0]; p.Name != "browser" || p.OutOfGate == nil || *p.OutOfGate != 0 {
		t.Errorf("%+v", p)
	}
	if lab := list.Pools[1]; lab.OutOfGate != nil {
		t.Errorf("nobody said what runs there: %+v", lab)
	}
}

// TestSlotsLiveByTheirSubstrate: no caller's heartbeat is heard, and what is listed runs on
// (T44, F05); what is not listed ends after slot_ttl, and what was never redeemed counts as
// running once it is listed.
func TestSlotsLiveByTheirSubstrate(t *testing.T) {
	r := newCloud(t)
	listed, silent := r.admit("chat", "k1", "chrome"), r.admit("ci", "k2", "chrome")
	r.redeem("provider", silent.Ticket, "vm-2")
	for range 5 {
		r.outlive(4 * time.Minute)
		r.report("provider", "browser", api.RunningReport{Running: []api.RunningSandbox{{ID: listed.ID, Epoch: listed.Epoch}}})
	}
	if a := r.call("chat", "GET", "/v1/admissions/k1", "").admission(); a.State != api.AdmissionStateRunning {
		t.Errorf("listed: %+v", a)
	}
	if a := r.call("ci", "GET", "/v1/admissions/k2", "").admission(); a.State != api.AdmissionStateExpired || a.Reason == "" {
		t.Errorf("not heard of: %+v", a)
	}
	v := r.report("provider", "browser", api.RunningReport{Running: []api.RunningSandbox{{ID: silent.ID, Epoch: silent.Epoch, Instance: "vm-2"}}})
	if len(v.OutOfGate) != 1 || v.OutOfGate[0].Why != api.OutOfGateWhyReleased {
		t.Errorf("what outlived its slot: %+v", v)
	}
}

// TestWhoMayReport: a substrate speaks for its own audience's slots.
func TestWhoMayReport(t *testing.T) {
	r := newCloud(t)
	a := r.admit("ci", "k1", "chrome")
	body := fmt.Sprintf(`{"running":[{"id":%q}]}`, a.ID)
	r.refused(api.Forbidden, "stranger", "POST", "/v1/pools/browser/running", body)
	r.refused(api.NotFound, "provider", "POST", "/v1/pools/nosuch/running", body)
	if v := r.report("root", "browser", api.RunningReport{Running: []api.RunningSandbox{{ID: a.ID}}}); v.Renewed != 1 {
		t.Errorf("%+v", v)
	}
	// A pool that went to another audience still has slots of the old one, which renews them.
	var c api.ConfigDocument
	r.call("root", "GET", "/v1/config", "").into(&c)
	change, err := json.Marshal(api.ConfigChange{Generation: c.Generation, Document: strings.Replace(c.Document, "name: browser, placement: none, audience: cloud", "name: browser, placement: none, audience: lab", 1)})
	r.must(err)
	if a := r.call("root", "PUT", "/v1/config", string(change)); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if v := r.report("provider", "browser", api.RunningReport{Running: []api.RunningSandbox{{ID: a.ID}}}); v.Renewed != 1 {
		t.Errorf("%+v", v)
	}
	v := r.report("stranger", "browser", api.RunningReport{Complete: true, Running: []api.RunningSandbox{{ID: a.ID}}})
	if v.Renewed != 0 || v.OutOfGate[0].Why != api.OutOfGateWhyOtherAudience || v.MissingCount != 0 {
		t.Errorf("%+v", v)
	}
	r = newRig(t, options{noHost: true})
	r.refused(api.InvalidRequest, "root", "POST", "/v1/pools/one/running", body)
	r = newRig(t, options{noHost: true, noConfig: true})
	r.refused(api.Unauthenticated, "root", "POST", "/v1/pools/one/running", body)
}

// TestSubstratesWithoutAStore: not now, and nothing boots; what was done is done once.
func TestSubstratesWithoutAStore(t *testing.T) {
	r := newCloud(t)
	a := r.admit("ci", "k1", "chrome")
	for _, c := range []struct{ call, path, body string }{
		{"ByID", "/v1/tickets:redeem", ticketBody(a.Ticket, "vm-1")},
		{"Redeem", "/v1/tickets:redeem", ticketBody(a.Ticket, "vm-1")},
		{"ByID", "/v1/tickets:verify", ticketBody(a.Ticket, "vm-1")},
		{"Now", "/v1/tickets:verify", ticketBody(a.Ticket, "vm-1")},
		{"List", "/v1/pools/browser/running", `{"running":[]}`},
		{"Seen", "/v1/pools/browser/running", fmt.Sprintf(`{"running":[{"id":%q}]}`, a.ID)},
		{"ByID", "/v1/pools/browser/running", `{"running":[{"id":"adm-none"}]}`},
	} {
		r.store.breaks(func(call string) error {
			if call == c.call {
				return errors.New("the disk is full")
			}
			return nil
		})
		if p := r.refused(api.Unavailable, "provider", "POST", c.path, c.body); strings.Contains(p.Detail, "disk") {
			t.Errorf("%s: %q", c.path, p.Detail)
		}
	}
	r.store.breaks(nil)
	r.redeem("provider", a.Ticket, "vm-1")
}

// FuzzSubstrates: no body of a substrate's makes the server panic, boot by a ticket that is
// none, or answer beside the contract.
func FuzzSubstrates(f *testing.F) {
	r := newCloud(f)
	a := r.admit("ci", "k1", "chrome")
	paths := []string{"/v1/tickets:verify", "/v1/tickets:redeem", "/v1/pools/browser/running"}
	for i, seed := range []string{
		ticketBody(a.Ticket[:len(a.Ticket)-1], "vm-1"), ticketBody("plm1.", ""), fmt.Sprintf(`{"running":[{"id":%q,"epoch":1},{"instance":"vm-1"}],"complete":true}`, a.ID),
		`{"ticket":null}`, `{"Ticket":"x"}`, `{"running":[null]}`, `{"running":[{"id":"\u0000"}]}`, `[]`, "{\"ticket\":\"\xff\"}",
	} {
		f.Add(uint8(i), seed)
	}
	f.Fuzz(func(t *testing.T, at uint8, body string) {
		one := *r
		one.t = t
		path := paths[int(at)%len(paths)]
		got, invalid := one.exchange("provider", "POST", path, body)
		if got.Status >= 500 && got.Status != 503 {
			t.Fatalf("%s %q: %d %s", path, body, got.Status, got.Body)
		}
		if got.Status < 400 && (strings.HasPrefix(path, "/v1/tickets") && !strings.Contains(body, a.Ticket) || invalid != nil && !lenient(body)) {
			t.Fatalf("%s %q: %d %s; the contract says %v", path, body, got.Status, got.Body, invalid)
		}
	})
}
