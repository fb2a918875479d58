package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

func post(key, class string, more ...string) string {
	return fmt.Sprintf(`{"key":%q,"class":%q,"tenant":"alice"%s}`, key, class, strings.Join(more, ""))
}

const queued = `,"mode":"queue"`

// create is a post of alice's that must be answered with this status.
func (r *rig) create(status int, body string) answer {
	r.t.Helper()
	a := r.call("alice", "POST", "/v1/admissions", body)
	if a.Status != status {
		r.t.Fatalf("%s: %d %s, want %d", body, a.Status, a.Body, status)
	}
	if status == http.StatusAccepted {
		r.seen(api.WaitingCapacity)
	}
	return a
}

// refused proves that a call gets this code.
func (r *rig) refused(code api.Code, who, method, path, body string) api.Problem {
	r.t.Helper()
	a := r.call(who, method, path, body)
	if a.Status < 400 {
		r.t.Errorf("%s %s %.200s: %d %s, want %s", method, path, body, a.Status, a.Body, code)
		return api.Problem{}
	}
	p := a.problem()
	if p.Code != code {
		r.t.Errorf("%s %s %.200s: %s (%s), want %s", method, path, body, p.Code, p.Detail, code)
	}
	r.seen(code)
	return p
}

// TestPassage goes through the surface from the yes to the end.
func TestPassage(t *testing.T) {
	r := newRig(t, options{})
	made := r.create(201, post("k1", "small"))
	first := made.admission()
	if made.Header.Get("Location") != "/v1/admissions/k1" || first.Ticket == "" || first.Host != "h1" || first.ChargeMB != 128 || first.Mode != api.ChargeModeWorkingSet {
		t.Errorf("%v %+v", made.Header, first)
	}
	r.clock.Advance(time.Second)
	again := r.create(200, post("k1", "small")).admission() // T75
	if again.ID != first.ID || again.Epoch != first.Epoch || again.Ticket == "" || !again.ExpiresAt.After(*first.ExpiresAt) {
		t.Errorf("%+v after %+v", again, first)
	}
	r.clock.Advance(time.Second)
	beat := r.call("alice", "POST", "/v1/admissions/k1/heartbeat", "").admission()
	if beat.Epoch != first.Epoch || beat.Ticket == again.Ticket || !beat.ExpiresAt.After(*again.ExpiresAt) {
		t.Errorf("%+v after %+v", beat, again)
	}
	for _, path := range []string{"/v1/admissions/k1", "/v1/admissions/id/" + first.ID, "/v1/admissions", "/v1/admissions?state=admitted&class=small&limit=1", "/v1/admissions?pool=default&host=" + first.Host} {
		a := r.call("alice", "GET", path, "")
		if a.Status != 200 || strings.Contains(string(a.Body), "ticket") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	for query, want := range map[string]int{"pool=" + first.Pool: 1, "pool=other": 0, "host=" + first.Host: 1, "host=elsewhere": 0} {
		var list api.AdmissionList
		if r.call("alice", "GET", "/v1/admissions?"+query, "").into(&list); len(list.Admissions) != want {
			t.Errorf("%s: %+v", query, list)
		}
	}
	if a := r.call("alice", "POST", "/v1/admissions/k1/attempt?wait_ms=10", ""); a.Status != 200 || a.admission().Ticket == "" {
		t.Errorf("attempt: %d %s", a.Status, a.Body)
	}
	for range 2 {
		if a := r.call("alice", "DELETE", "/v1/admissions/k1", ""); a.Status != 200 || a.admission().State != api.AdmissionStateReleased {
			t.Errorf("release: %d %s", a.Status, a.Body)
		}
	}
	if anew := r.create(201, post("k1", "small")).admission(); anew.Epoch <= first.Epoch {
		t.Errorf("epoch %d after %d", anew.Epoch, first.Epoch)
	}
	if a := r.call("alice", "DELETE", "/v1/admissions/id/"+first.ID, ""); a.Status != 200 {
		t.Errorf("release by id: %d %s", a.Status, a.Body)
	}
	if strings.Contains(r.log.String(), first.Ticket) || strings.Contains(r.log.String(), beat.Ticket) {
		t.Error("a ticket is in the log")
	}
}

func TestWaiting(t *testing.T) {
	r := newRig(t, options{})
	r.create(201, post("k1", "solo"))
	a := r.create(202, post("k2", "solo", queued))
	var w api.Waiting
	a.into(&w)
	if w.Code != api.WaitingCapacity || w.WaitingFor != api.WaitingForSlot || w.Position != 1 || *w.PoolBusy != 1 || *w.Cap != 1 || w.Receipt == "" ||
		w.RetryAfterMS <= 0 || a.Header.Get("Retry-After") != fmt.Sprint((w.RetryAfterMS+999)/1000) {
		t.Errorf("%v %+v", a.Header, w)
	}
	for _, path := range []string{"/v1/admissions/k2/attempt", "/v1/admissions/k2/heartbeat"} {
		if a := r.call("alice", "POST", path, ""); a.Status != 202 {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if a := r.call("alice", "GET", "/v1/admissions/k2", ""); a.admission().Waiting == nil {
		t.Errorf("%s", a.Body)
	}
	poll := make(chan answer)
	go func() { poll <- r.call("alice", "POST", "/v1/admissions/k2/attempt?wait_ms=30000", "") }()
	for {
		row, _, err := r.store.Get(t.Context(), "alice", "k2")
		r.must(err)
		if row.PresentUntil != 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	r.call("alice", "DELETE", "/v1/admissions/k1", "")
	if a := <-poll; a.Status != 200 || a.admission().Ticket == "" {
		t.Errorf("the poll: %d %s", a.Status, a.Body)
	}
}

// TestRunning has the states between the boot and the end.
func TestRunning(t *testing.T) {
	r := newRig(t, options{})
	a := r.create(201, post("k1", "small")).admission()
	r.host.step(host.Redeem{ID: a.ID, Epoch: a.Epoch, Identity: host.Identity{Consumer: "alice", Key: "k1"}})
	r.host.step(host.Track{ID: a.ID, Epoch: a.Epoch, Process: host.Process{Pid: 7}})
	if _, err := r.store.Track(t.Context(), a.ID, a.Epoch); err != nil {
		t.Fatal(err)
	}
	if a := r.create(200, post("k1", "small")).admission(); a.State != api.AdmissionStateRunning || a.Ticket != "" {
		t.Errorf("%+v", a)
	}
	var h api.Host
	r.call("olga", "GET", "/v1/hosts/h1", "").into(&h)
	if len(h.Sandboxes) != 1 || h.Sandboxes[0].Key != "k1" || h.Sandboxes[0].ChargeMB != 128 || h.AdmittableMB != 4096-256-128 {
		t.Errorf("%+v", h)
	}
	r.host.set(func() { r.host.keep = true })
	if a := r.call("alice", "DELETE", "/v1/admissions/k1", ""); a.Status != 202 || a.admission().State != api.AdmissionStateReleasing {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := r.call("olga", "DELETE", "/v1/admissions/id/"+a.ID, ""); a.Status != 202 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	r.refused(api.Releasing, "alice", "POST", "/v1/admissions", post("k1", "small"))
	r.refused(api.Releasing, "alice", "POST", "/v1/admissions/k1/attempt", "")
}

// TestLooks reads what is for operators and admins.
func TestLooks(t *testing.T) {
	r := newRig(t, options{})
	r.create(201, post("k1", "small"))
	for path, roles := range map[string]string{
		"/v1/hosts": "olga root", "/v1/hosts/h1": "olga root", "/v1/config": "olga root",
		"/v1/pools": "alice bob olga root", "/v1/whoami": "alice bob olga root", "/v1/admissions": "alice bob olga root",
	} {
		for _, who := range []string{"alice", "bob", "olga", "root"} {
			if strings.Contains(roles, who) {
				if a := r.call(who, "GET", path, ""); a.Status != 200 {
					t.Errorf("%s %s: %d %s", who, path, a.Status, a.Body)
				}
				continue
			}
			r.refused(api.Forbidden, who, "GET", path, "")
		}
	}
	var pools api.PoolList
	r.call("bob", "GET", "/v1/pools", "").into(&pools)
	for _, p := range pools.Pools {
		if len(p.Consumers) != 0 { // alice's, which are not bob's business
			t.Errorf("bob sees %+v", p)
		}
	}
	var list api.AdmissionList
	r.call("olga", "GET", "/v1/admissions", "").into(&list)
	if len(list.Admissions) != 1 || list.Admissions[0].Key != "k1" {
		t.Errorf("%+v", list)
	}
	r.host.set(func() { r.host.deaf = true })
	var hosts api.HostList
	r.call("olga", "GET", "/v1/hosts", "").into(&hosts)
	if len(hosts.Hosts) != 1 || hosts.Hosts[0].ID != "h1" || hosts.Hosts[0].AdmittableMB == 0 {
		t.Errorf("a host that does not answer: %+v", hosts)
	}
	r.refused(api.HostSilent, "olga", "GET", "/v1/hosts/h1", "")
}

// TestStrangers: another consumer's key and id are as if they were not there, and tenants
// come from the credential alone.
func TestStrangers(t *testing.T) {
	r := newRig(t, options{})
	a := r.create(201, post("k1", "small")).admission()
	for _, call := range []string{
		"GET /v1/admissions/k1", "DELETE /v1/admissions/k1", "POST /v1/admissions/k1/attempt", "POST /v1/admissions/k1/heartbeat",
		"GET /v1/admissions/id/" + a.ID, "DELETE /v1/admissions/id/" + a.ID,
	} {
		method, path, _ := strings.Cut(call, " ")
		r.refused(api.NotFound, "bob", method, path, "")
	}
	if body := r.call("bob", "GET", "/v1/admissions", "").Body; strings.Contains(string(body), "k1") {
		t.Errorf("bob lists %s", body)
	}
	r.refused(api.Forbidden, "bob", "POST", "/v1/admissions", post("k1", "small")) // tenant alice
	r.refused(api.Forbidden, "alice", "POST", "/v1/admissions", `{"key":"k9","class":"small","tenant":"bob"}`)
	r.refused(api.InvalidRequest, "alice", "POST", "/v1/admissions", `{"key":"k9","class":"small","tenant":"a b"}`)
	r.refused(api.Forbidden, "bob", "POST", "/v1/admissions", `{"key":"k1","class":"small","host":{"id":"h1","mode":"require"}}`)
	if a := r.call("bob", "POST", "/v1/admissions", `{"key":"k1","class":"small"}`); a.Status != 201 || a.admission().Tenant != "bob" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

var everySeen = map[api.Code]bool{}

func (r *rig) seen(c api.Code) { everySeen[c] = true }

// TestEveryCode has the surface say every code of the table at least once.
func TestEveryCode(t *testing.T) {
	clear(everySeen)
	t.Run("requests", testRequestCodes)
	t.Run("pools", testPoolCodes)
	t.Run("hosts", testHostCodes)
	t.Run("operations", testOperationCodes)
	t.Run("running", TestRunning)
	t.Run("tickets", TestTicketReasons)
	t.Run("joining", TestJoining)
	t.Run("states", TestHostStates)
	t.Run("modes", TestModes)
	for _, m := range api.Table() {
		if !everySeen[m.Code] {
			t.Errorf("%s was never said", m.Code)
		}
	}
}

func testRequestCodes(t *testing.T) {
	r := newRig(t, options{})
	for _, who := range []string{"", "mallory"} {
		r.refused(api.Unauthenticated, who, "GET", "/v1/whoami", "")
		r.refused(api.Unauthenticated, who, "POST", "/v1/admissions", "garbage") // before anything is read
	}
	r.create(201, post("k1", "small"))
	r.refused(api.KeyConflict, "alice", "POST", "/v1/admissions", post("k1", "small", `,"memory_mb":256`))
	r.refused(api.KeyConflict, "alice", "POST", "/v1/admissions", `{"key":"k1","class":"small","tenant":"poor"}`)
	r.refused(api.UnknownClass, "alice", "POST", "/v1/admissions", post("k2", "nosuch"))
	r.refused(api.TooLarge, "alice", "POST", "/v1/admissions", post("k2", "small", `,"memory_mb":70000`))
	r.refused(api.TooLarge, "alice", "POST", "/v1/admissions", post("k2", "small", `,"cpu":1e300`))
	r.refused(api.Infeasible, "alice", "POST", "/v1/admissions", post("k2", "small", `,"memory_mb":65536,"mode":"queue"`))
	r.refused(api.Infeasible, "alice", "POST", "/v1/admissions", post("k2", "small", `,"labels":{"zone":"x"}`))
	r.refused(api.BodyTooLarge, "alice", "POST", "/v1/admissions", `{"key":"`+strings.Repeat("x", 10<<20)+`"}`)
	for _, key := range []string{"GET /v1/admissions/none", "GET /v1/admissions/id/none", "GET /v1/nowhere", "GET /", "POST /v1/admissions/", "GET /v1/admissions/k1/nothing"} {
		method, path, _ := strings.Cut(key, " ")
		r.refused(api.NotFound, "alice", method, path, "")
	}
	r.refused(api.NotFound, "olga", "GET", "/v1/hosts/none", "")
	for call, allow := range map[string]string{
		"PATCH /v1/admissions": "GET, HEAD, POST", "DELETE /v1/admissions": "GET, HEAD, POST", "PUT /v1/admissions/k1": "GET, HEAD, DELETE",
		"GET /v1/admissions/k1/attempt": "POST", "HEAD /v1/admissions/k1/heartbeat": "POST", "OPTIONS /v1/config": "GET, HEAD, PUT",
		"POST /healthz": "GET, HEAD", "BREW /v1/whoami": "GET, HEAD",
	} {
		method, path, _ := strings.Cut(call, " ")
		if a := r.call("alice", method, path, ""); a.Status != 405 || a.Header.Get("Allow") != allow {
			t.Errorf("%s: %d, Allow %q", call, a.Status, a.Header.Get("Allow"))
		}
	}
	r.seen(api.MethodNotAllowed)
}

func testPoolCodes(t *testing.T) {
	r := newRig(t, options{})
	r.create(201, post("k1", "solo"))
	p := r.refused(api.PoolFull, "alice", "POST", "/v1/admissions", post("k2", "solo"))
	if p.Scope != api.ScopePool || p.Pool != "one" || *p.PoolBusy != 1 || *p.Cap != 1 || p.Receipt == "" {
		t.Errorf("%+v", p)
	}
	r.create(202, post("k3", "solo", queued, `,"max_queue_age_ms":5000`))
	r.refused(api.QueueFull, "alice", "POST", "/v1/admissions", post("k4", "solo", queued))
	r.clock.Advance(6 * time.Second)
	p = r.refused(api.QueueTimeout, "alice", "POST", "/v1/admissions/k3/attempt", "")
	if !p.TimedOut || p.QueuedForMS < 5000 {
		t.Errorf("%+v", p)
	}
	r.create(201, `{"key":"p1","class":"small","tenant":"poor"}`)
	p = r.refused(api.TenantOverQuota, "alice", "POST", "/v1/admissions", `{"key":"p2","class":"small","tenant":"poor"}`)
	if p.Scope != api.ScopeTenant || *p.Limit != 1 || *p.Use != 1 || p.Retryable {
		t.Errorf("%+v", p)
	}
	r.create(202, `{"key":"p2","class":"small","tenant":"poor","mode":"queue"}`)
}

func testHostCodes(t *testing.T) {
	r := newRig(t, options{host: func(c *host.Config) { c.MaxStarts, c.MaxWaitingStarts = 2, 0 }})
	r.create(201, post("big", "large"))
	p := r.refused(api.NoCapacity, "alice", "POST", "/v1/admissions", post("k0", "large"))
	if p.Scope != api.ScopeFleet || p.Tally["no_room"] != 1 || !slices.Equal(p.Hosts["no_room"], []string{"h1"}) {
		t.Errorf("%+v", p)
	}
	a := r.create(201, post("k1", "small")).admission()
	if p := r.refused(api.HostStartsFull, "alice", "POST", "/v1/admissions", post("k2", "small")); p.Scope != api.ScopeFleet { // every host said so, and none was demanded
		t.Errorf("%+v", p)
	}
	r.host.set(func() { r.host.deaf = true })
	r.refused(api.HostSilent, "alice", "POST", "/v1/admissions/k1/heartbeat", "")
	r.host.set(func() { r.host.deaf = false })
	r.host.step(host.Release{ID: a.ID, Gen: a.Epoch})
	r.refused(api.ReservationLapsed, "alice", "POST", "/v1/admissions/k1/heartbeat", "")
	r.host.step(host.Sample{Limits: []gate.Limit{{Name: "machine", Size: 4 * gate.GiB, Used: 4 * gate.GiB}}, Full: true})
	r.refused(api.HostPressure, "alice", "POST", "/v1/admissions", post("k2", "small"))
	r.host.step(host.SetIntake{Intake: host.IntakeDraining})
	r.refused(api.HostDraining, "alice", "POST", "/v1/admissions", post("k2", "small"))

	r = newRig(t, options{noHost: true})
	r.refused(api.NoHealthyAgents, "alice", "POST", "/v1/admissions", post("k1", "small"))
	r.refused(api.NoHealthyAgents, "", "GET", "/readyz", "")
}

func testOperationCodes(t *testing.T) {
	r := newRig(t, options{})
	change := func(generation int64, document string) string {
		body, err := json.Marshal(api.ConfigChange{Generation: generation, Document: document})
		r.must(err)
		return string(body)
	}
	r.refused(api.Forbidden, "olga", "PUT", "/v1/config", change(1, document()))
	r.refused(api.GenerationConflict, "root", "PUT", "/v1/config", change(9, document()))
	p := r.refused(api.InvalidConfig, "root", "PUT", "/v1/config", change(1, strings.Replace(document(), "cap: 40", "cap: 4O", 1)+"\nbogus: 1\n"))
	if len(p.Errors) < 2 || p.Errors[0].Line == 0 || p.Errors[0].Message == "" {
		t.Errorf("%+v", p.Errors)
	}
	var c api.ConfigDocument
	r.call("olga", "GET", "/v1/config", "").into(&c)
	if c.Generation != 1 || c.Document != document() {
		t.Errorf("after bad changes: %d", c.Generation)
	}
	for _, body := range []string{`{"document":"x"}`, `{"generation":1}`, `null`, `{}`, `{"generation":"1","document":"x"}`, `{"generation":1,"document":"x","by":"me"}`, ``} {
		r.refused(api.InvalidRequest, "root", "PUT", "/v1/config", body)
	}
	r.call("root", "PUT", "/v1/config", change(1, document()+"# more\n")).into(&c)
	if c.Generation != 2 || c.AppliedBy != "root" {
		t.Errorf("%+v", c)
	}
	p = r.refused(api.OverCeiling, "olga", "POST", "/v1/pools/one/override", `{"cap":11,"for_ms":60000,"reason":"more"}`)
	if *p.Limit != 50 || *p.Use != 51 || p.Retryable || !strings.Contains(p.Remedy, "by 1") {
		t.Errorf("%+v", p)
	}
	down := errors.New("the disk is full")
	r.store.breaks(func(string) error { return down })
	for _, call := range []string{"GET /v1/admissions/k1", "POST /v1/admissions/k1/attempt", "GET /v1/pools", "DELETE /v1/admissions/k1", "GET /readyz"} {
		method, path, _ := strings.Cut(call, " ")
		if p := r.refused(api.Unavailable, "root", method, path, ""); method != "GET" && strings.Contains(p.Detail, "disk") {
			t.Errorf("%s says %q", call, p.Detail)
		}
	}
	r.refused(api.Unavailable, "root", "GET", "/v1/config", "")
	r.refused(api.Unavailable, "alice", "POST", "/v1/admissions", post("k1", "small"))
	r.store.breaks(func(string) error { panic("a broken invariant") })
	if p := r.refused(api.Internal, "alice", "GET", "/v1/admissions/k1", ""); strings.Contains(fmt.Sprint(p), "broken invariant") {
		t.Errorf("%+v", p)
	}
}

// TestBadBodies: whatever is sent is answered with what is wrong with it, and leaves nothing.
func TestBadBodies(t *testing.T) {
	r := newRig(t, options{})
	deep := strings.Repeat(`{"labels":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	for _, body := range []string{
		``, ` `, `null`, `1`, `"x"`, `[]`, `{}`, `{`, `}`, `nonsense`, `{"key":"k"}`, `{"class":"small"}`, deep, strings.Repeat("[", 100_000),
		post("k", "small") + `x`, post("k", "small") + post("k", "small"), post("k", "small", `,"pool":"one"`), post("k", "small", `,"consumer":"bob"`),
		post("k", "small", `,"memory_mb":"512"`), post("k", "small", `,"memory_mb":-1`), post("k", "small", `,"memory_mb":0`), post("k", "small", `,"memory_mb":1.5`),
		post("k", "small", `,"memory_mb":99999999999999999999`), post("k", "small", `,"cpu":-1`), post("k", "small", `,"cpu":1e999`), post("k", "small", `,"cpu":"1"`),
		post("k", "small", `,"mode":"maybe"`), post("k", "small", `,"mode":1`), post("k", "small", `,"max_queue_age_ms":0`), post("k", "small", queued, `,"max_queue_age_ms":-5`),
		post("k", "small", queued, `,"max_queue_age_ms":9223372036854775807`), post("k", "small", `,"max_queue_age_ms":1000`),
		post("k", "small", `,"labels":[]`), post("k", "small", `,"labels":{"a":1}`), post("k", "small", `,"labels":{"a=b":"c"}`), post("k", "small", `,"labels":{"a":"b,c=d"}`),
		post("k", "small", `,"host":{"id":"h1"}`), post("k", "small", `,"host":{"id":"","mode":"require"}`), post("k", "small", `,"host":{"id":"h1","mode":"never"}`),
		post("k", "small", `,"host":{"id":"h1","mode":"require","why":1}`), post("k", "small", `,"template":"a b"`), post("k", "small", `,"receipt":"`+strings.Repeat("r", 2000)+`"`),
		post("", "small"), post("a b", "small"), post("k/1", "small"), post(strings.Repeat("k", 129), "small"), post("ключ", "small"), "{\"key\":\"k\xff\",\"class\":\"small\"}",
		post("k", ""), post("k", "no such"), "\x00\x01\x02",
	} {
		p := r.refused(api.InvalidRequest, "alice", "POST", "/v1/admissions", body)
		if p.Detail == "" || strings.Contains(p.Detail, "api.") || strings.Contains(p.Detail, "int64") {
			t.Errorf("%.80q: %q", body, p.Detail)
		}
	}
	for _, wait := range []string{"-1", "30001", "x", "1e3", "99999999999999999999", "1.5"} {
		p := r.refused(api.InvalidRequest, "alice", "POST", "/v1/admissions/k/attempt?wait_ms="+wait, "")
		if !strings.HasPrefix(p.Detail, "wait_ms: ") || strings.Contains(p.Detail, "strconv") {
			t.Errorf("%q", p.Detail)
		}
	}
	rows, err := r.store.List(t.Context(), filter)
	if err != nil || len(rows) != 0 {
		t.Errorf("%v %v", rows, err)
	}
}

// TestOperations are for load balancers and scrapers: no token, no JSON.
func TestOperations(t *testing.T) {
	r := newRig(t, options{noHost: true, noConfig: true})
	if a := r.call("", "GET", "/healthz", ""); a.Status != 200 || string(a.Body) != "ok\n" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	r.refused(api.Unavailable, "", "GET", "/readyz", "") // no configuration
	r.configure(document())
	r.refused(api.NoHealthyAgents, "", "GET", "/readyz", "")
	r.attach(nil)
	if a := r.call("", "GET", "/readyz", ""); a.Status != 200 || string(a.Body) != "ready\n" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := r.call("", "GET", "/openapi.yaml", ""); a.Status != 200 || string(a.Body) != api.OpenAPI() {
		t.Errorf("%d", a.Status)
	}
}

// TestMetrics holds the four numbers (design §11), clean names, and no label that grows
// with what callers make up.
func TestMetrics(t *testing.T) {
	r := newRig(t, options{})
	r.create(201, post("secret-key", "solo"))
	p := r.refused(api.PoolFull, "alice", "POST", "/v1/admissions", post("secret-key-2", "solo"))
	r.refused(api.UnknownClass, "alice", "POST", "/v1/admissions", post("secret-key-3", "secret-class"))
	r.call("alice", "DELETE", "/v1/admissions/secret-key", "")
	r.create(201, post("secret-key-2", "solo", `,"receipt":"`+p.Receipt+`"`))
	text := string(r.call("", "GET", "/metrics", "").Body)
	for _, want := range []string{
		`plimsoll_refusals_total{class="solo",consumer="alice",pool="one",reason="pool_full"} 1`,
		`plimsoll_refusals_total{class="",consumer="alice",pool="",reason="unknown_class"} 1`,
		`plimsoll_host_resident_bytes{host="h1"} 0`, `plimsoll_host_committed_bytes{host="h1"} 0`,
		`plimsoll_host_reserved_bytes{host="h1"} 1.34217728e+08`, `plimsoll_host_reservations{host="h1"} 1`,
		`plimsoll_first_refusal_to_success_seconds_count 1`,
		`plimsoll_pool_busy_slots{pool="one"} 1`, `plimsoll_pool_running_slots{pool="one"} 0`, // T41: full, and nothing runs
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	for _, never := range []string{"secret", "tenant=", "adm-", "key="} {
		if strings.Contains(text, never) {
			t.Errorf("the metrics hold %q", never)
		}
	}
	r.call("alice", "DELETE", "/v1/admissions/secret-key-2", "")
	idle := string(r.call("", "GET", "/metrics", "").Body)
	for _, want := range []string{`plimsoll_host_reserved_bytes{host="h1"} 0`, `plimsoll_host_reservations{host="h1"} 0`, `plimsoll_pool_busy_slots{pool="one"} 0`} {
		if !strings.Contains(idle, want+"\n") {
			t.Errorf("idle, and no %s", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// TestContract: each operation of /openapi.yaml is served, and each path that is served is in it.
func TestContract(t *testing.T) {
	r := newRig(t, options{})
	doc, err := openapi3.NewLoader().LoadFromData(r.call("", "GET", "/openapi.yaml", "").Body)
	r.must(err)
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			a := r.call("root", method, strings.NewReplacer("{key}", "k", "{id}", "i", "{pool}", "one", "{name}", "n").Replace(path), "")
			if a.Status == 405 || (a.Status == 404 && strings.Contains(a.problem().Detail, "there is no")) {
				t.Errorf("%s %s is not served: %s", method, path, a.Body)
			}
		}
	}
	codes := doc.Components.Schemas["Code"].Value.Enum
	for i, m := range api.Table() {
		if i >= len(codes) || codes[i] != string(m.Code) {
			t.Errorf("%s is not in its place in the contract's list", m.Code)
		}
	}
}

func TestScheme(t *testing.T) {
	r := newRig(t, options{})
	for header, status := range map[string]int{
		"Bearer alicealice": 200, "bearer alicealice": 200, "Bearer": 401, "Basic alicealice": 401, "alicealice": 401, "Bearer  alicealice": 401, "": 401,
	} {
		q, err := http.NewRequestWithContext(t.Context(), "GET", r.server.URL+"/v1/whoami", nil)
		r.must(err)
		q.Header.Set("Authorization", header)
		resp, err := r.server.Client().Do(q)
		r.must(err)
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%q: %d", header, resp.StatusCode)
		}
	}
}

// FuzzPost: no body makes the server panic, or answer beside the contract.
func FuzzPost(f *testing.F) {
	r := newRig(f, options{})
	for _, seed := range []string{
		post("k", "small"), post("k", "small", queued, `,"max_queue_age_ms":5`), post("k", "solo", `,"memory_mb":512,"cpu":0.5,"template":"t","labels":{"a":"b"}`),
		post("k", "small", `,"host":{"id":"h1","mode":"prefer"},"receipt":"x"`), `{"key":null}`, `[]`, "{\"key\":\"\xff\"}", `{"KEY":"k","Class":"small"}`, `{"key":"k","key":"j","class":"small"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		one := *r
		one.t = t
		a, invalid := one.exchange("alice", "POST", "/v1/admissions", body)
		if a.Status >= 500 && a.Status != 503 {
			t.Fatalf("%q: %d %s", body, a.Status, a.Body)
		}
		if invalid != nil && a.Status < 400 && !lenient(body) {
			t.Fatalf("%q: the contract says %v, and the answer is %d", body, invalid, a.Status)
		}
		if a.Status < 300 {
			v := a.admission()
			one.call("alice", "DELETE", "/v1/admissions/"+v.Key, "")
		}
	})
}

// lenient says what Go reads and JSON Schema would not: names in another case, a null for
// what may be left out.
func lenient(body string) bool {
	var v map[string]any
	if json.Unmarshal([]byte(body), &v) != nil {
		return false
	}
	for name, value := range v {
		if value == nil || name != strings.ToLower(name) {
			return true
		}
	}
	return false
}
