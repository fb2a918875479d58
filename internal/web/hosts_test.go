package web_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// joinToken makes one, as root.
func (r *rig) joinToken(body string) api.JoinTokenMade {
	r.t.Helper()
	a := r.call("root", "POST", "/v1/join-tokens", body)
	var made api.JoinTokenMade
	if a.into(&made); a.Status != http.StatusCreated || a.Header.Get("Cache-Control") != "no-store" {
		r.t.Fatalf("join token: %d %s", a.Status, a.Body)
	}
	return made
}

func joinBody(token, host string) string {
	return fmt.Sprintf(`{"join_token":%q,"host":%q,"endpoint":"10.0.0.7:7071"}`, token, host)
}

// join registers a host, and returns its credential.
func (r *rig) join(token, host string) string {
	r.t.Helper()
	a := r.call("", "POST", "/v1/hosts:join", joinBody(token, host))
	var joined api.HostJoined
	if a.into(&joined); a.Status != http.StatusCreated || joined.Host != host || a.Header.Get("Cache-Control") != "no-store" {
		r.t.Fatalf("join: %d %s", a.Status, a.Body)
	}
	return joined.Credential
}

const hello = `{"endpoint":"10.0.0.8:7071","version":"v9","incarnation":0}`

// enroll registers under a credential.
func (r *rig) enroll(credential, host, body string) api.HostRegistered {
	r.t.Helper()
	a := r.call(credential, "POST", "/v1/hosts/"+host+"/register", body)
	var out api.HostRegistered
	if a.into(&out); a.Status != http.StatusOK {
		r.t.Fatalf("register: %d %s", a.Status, a.Body)
	}
	return out
}

func TestJoining(t *testing.T) {
	r := newRig(t, options{})
	made := r.joinToken(`{}`)
	credential := r.join(made.JoinToken, "h2")
	r.refused(api.JoinRejected, "", "POST", "/v1/hosts:join", joinBody(made.JoinToken, "h3"))
	r.refused(api.JoinRejected, "", "POST", "/v1/hosts:join", joinBody("plj_none", "h3"))
	r.refused(api.JoinRejected, "", "POST", "/v1/hosts:join", joinBody(r.joinToken(`{"host":"h4"}`).JoinToken, "h3"))
	p := r.refused(api.JoinRejected, "", "POST", "/v1/hosts:join", joinBody(r.joinToken(`{}`).JoinToken, "h2"))
	if !strings.Contains(p.Detail, "--host h2") {
		t.Errorf("%+v", p)
	}
	late := r.joinToken(`{"for_ms":60000}`)
	r.clock.Advance(time.Minute)
	r.refused(api.JoinRejected, "", "POST", "/v1/hosts:join", joinBody(late.JoinToken, "h3"))

	first := r.enroll(credential, "h2", hello)
	if again := r.enroll(credential, "h2", fmt.Sprintf(`{"endpoint":"10.0.0.8:7071","version":"v9","incarnation":%d}`, first.Incarnation)); again.Incarnation != first.Incarnation {
		t.Errorf("went on as %d after %d", again.Incarnation, first.Incarnation)
	}
	if anew := r.enroll(credential, "h2", hello); anew.Incarnation <= first.Incarnation || anew.State != api.HostStateActive {
		t.Errorf("%+v after %+v", anew, first)
	}
	if first.Keys.Audience != "h2" || len(first.Keys.Keys) == 0 {
		t.Errorf("keys of %q", first.Keys.Audience)
	}
	// A token that is bound to the host gives it a new credential, and makes the old one void.
	fresh := r.join(r.joinToken(`{"host":"h2"}`).JoinToken, "h2")
	r.refused(api.Unauthenticated, credential, "POST", "/v1/hosts/h2/register", hello)
	r.enroll(fresh, "h2", hello)
	for _, secret := range []string{made.JoinToken, credential, fresh, first.Keys.Keys[0].Secret} {
		if strings.Contains(r.log.String(), secret) {
			t.Error("a secret is in the log")
		}
	}
	r.refused(api.InvalidRequest, "", "POST", "/v1/hosts:join", `{"join_token":"x","host":"a b","endpoint":"10.0.0.7:7071"}`)
	for _, endpoint := range []string{"x", "10.0.0.7", "10.0.0.7:0", ":7071", "a b:1", strings.Repeat("x", 300) + ":1"} {
		r.refused(api.InvalidRequest, "", "POST", "/v1/hosts:join", fmt.Sprintf(`{"join_token":"x","host":"h9","endpoint":%q}`, endpoint))
	}
	r.refused(api.InvalidRequest, fresh, "POST", "/v1/hosts/h2/register", `{"endpoint":"10.0.0.8:7071","version":"v9","incarnation":-1}`)
}

func TestJoinTokens(t *testing.T) {
	r := newRig(t, options{})
	a, b := r.joinToken(`{"host":"h2","for_ms":3600000}`), r.joinToken(`{}`)
	r.join(a.JoinToken, "h2")
	var list api.JoinTokenList
	r.call("root", "GET", "/v1/join-tokens", "").into(&list)
	used := slices.IndexFunc(list.Tokens, func(t api.JoinToken) bool { return t.UsedBy == "h2" && t.UsedAt != nil })
	if len(list.Tokens) != 2 || used < 0 {
		t.Errorf("%+v", list)
	}
	if a := r.call("root", "DELETE", "/v1/join-tokens/"+b.Token.ID, ""); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	r.refused(api.NotFound, "root", "DELETE", "/v1/join-tokens/"+b.Token.ID, "")
	r.refused(api.NotFound, "root", "DELETE", "/v1/join-tokens/"+a.Token.ID, "") // it was used
	r.refused(api.JoinRejected, "", "POST", "/v1/hosts:join", joinBody(b.JoinToken, "h3"))
	for _, bad := range []string{`{"for_ms":59999}`, `{"for_ms":2592000001}`, `{"host":"a b"}`, `{"hots":"h2"}`} {
		r.refused(api.InvalidRequest, "root", "POST", "/v1/join-tokens", bad)
	}
	var deeds api.DeedList
	r.call("olga", "GET", "/v1/audit?limit=4", "").into(&deeds)
	var told []string
	for _, d := range deeds.Deeds {
		told = append(told, d.By+": "+d.What)
	}
	want := []string{"root: host token revoke " + b.Token.ID, "host h2: joined at 10.0.0.7:7071", "root: host token create --for 1h0m0s", "root: host token create --host h2 --for 1h0m0s"}
	if !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}

const because = `{"reason":"because"}`

// deed is an operator's that must be done.
func (r *rig) deed(host, what, body string) (out api.HostChange) {
	r.t.Helper()
	a := r.call("olga", "POST", "/v1/hosts/"+host+"/"+what, body)
	if a.Status != http.StatusOK {
		r.t.Fatalf("%s %s: %d %s", what, host, a.Status, a.Body)
	}
	a.into(&out)
	return out
}

// TestHostStates has every change, the illegal ones too (T60: a draining host never turns back).
func TestHostStates(t *testing.T) {
	r := newRig(t, options{})
	credential := r.join(r.joinToken(`{}`).JoinToken, "h2")
	at := "/v1/hosts/h2/"
	if c := r.deed("h2", "cordon", `{}`); c.Was != api.HostStateActive || c.State != api.HostStateCordoned || c.Warning == "" {
		t.Errorf("%+v", c)
	}
	r.deed("h2", "cordon", `{}`) // says nothing new
	r.deed("h2", "uncordon", `{}`)
	for _, what := range []string{"drain", "bury"} {
		r.refused(api.InvalidRequest, "olga", "POST", at+what, `{}`)
	}
	p := r.refused(api.HostStateConflict, "olga", "POST", at+"bury", because) // it joined just now
	if !strings.Contains(p.Remedy, "drain h2") {
		t.Errorf("%+v", p)
	}
	r.deed("h2", "drain", because)
	for _, what := range []string{"cordon", "uncordon"} {
		p := r.refused(api.HostStateConflict, "olga", "POST", at+what, `{}`)
		if !strings.Contains(p.Detail, "draining") || !strings.Contains(p.Detail, "allows: bury") {
			t.Errorf("%+v", p)
		}
	}
	if c := r.deed("h2", "bury", because); c.Was != api.HostStateDraining || c.State != api.HostStateBuried { // drained, and empty
		t.Errorf("%+v", c)
	}
	r.deed("h2", "bury", because)
	for _, what := range []string{"cordon", "uncordon", "drain"} {
		r.refused(api.HostStateConflict, "olga", "POST", at+what, because)
	}
	r.refused(api.NotFound, "olga", "POST", "/v1/hosts/none/cordon", `{}`)
	p = r.refused(api.HostIsBuried, credential, "POST", at+"register", hello)
	if !strings.Contains(p.Remedy, "host token create") {
		t.Errorf("%+v", p)
	}
	r.refused(api.Unauthenticated, "plh_other", "POST", at+"register", hello) // who has not even that learns nothing
	var list api.HostList
	r.call("olga", "GET", "/v1/hosts", "").into(&list)
	if len(list.Hosts) != 2 || list.Hosts[1].State != api.HostStateBuried || list.Hosts[1].BuriedAt == nil || list.Hosts[1].NotConnected == "" {
		t.Errorf("%+v", list)
	}
	r.enroll(r.join(r.joinToken(`{}`).JoinToken, "h2"), "h2", hello) // joined anew
	if c := r.deed("h2", "cordon", `{}`); c.Was != api.HostStateActive {
		t.Errorf("%+v", c)
	}
	var deeds api.DeedList
	r.call("olga", "GET", "/v1/audit?limit=20", "").into(&deeds)
	if n := len(slices.DeleteFunc(deeds.Deeds, func(d api.Deed) bool {
		return !strings.HasPrefix(d.What, "host ") || strings.HasPrefix(d.What, "host token")
	})); n != 5 {
		t.Errorf("%d deeds: %+v", n, deeds.Deeds)
	}
}

// TestHostsOwnRoutes: a host's credential is good for its own registration and for nothing
// else, and nobody else's token is.
func TestHostsOwnRoutes(t *testing.T) {
	r := newCloud(t)
	credential := r.join(r.joinToken(`{}`).JoinToken, "h2")
	other := r.join(r.joinToken(`{}`).JoinToken, "h3")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	r.must(err)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if role := mayCall[op.OperationID]; slices.Contains(op.Tags, "operations") || role == "nobody" || role == "host" {
				continue
			}
			r.refused(api.Unauthenticated, credential, method, atPath(path), bodies[op.OperationID])
		}
	}
	r.enroll(credential, "h2", hello)
	for _, who := range []string{"", other, "root", "olga", "chat", "provider"} {
		r.refused(api.Unauthenticated, who, "POST", "/v1/hosts/h2/register", hello)
	}
	r.refused(api.Unauthenticated, credential, "POST", "/v1/hosts/none/register", hello)
}

// TestHostKeysAreItsOwn: what a host gets verifies its own tickets, and no other's.
func TestHostKeysAreItsOwn(t *testing.T) {
	r := newRig(t, options{})
	text := r.create(201, post("k1", "small")).admission().Ticket // of h1
	out := r.enroll(r.join(r.joinToken(`{}`).JoinToken, "h2"), "h2", hello)
	said, err := ticket.Inspect(ticket.Text(text))
	r.must(err)
	if said.Audience != "h1" || out.Keys.Audience != "h2" {
		t.Errorf("a ticket for %s, keys for %s", said.Audience, out.Keys.Audience)
	}
}

// TestDrainMovesThroughTheAPI: what has not booted is told to move, what runs is counted, and
// nothing new lands there (T58).
func TestDrainMovesThroughTheAPI(t *testing.T) {
	r := newRig(t, options{})
	_, err := r.store.Register(t.Context(), "h1")
	r.must(err)
	a := r.create(201, post("k1", "small")).admission()
	r.create(201, post("k2", "small"))
	r.host.step(host.Redeem{ID: a.ID, Epoch: a.Epoch, Identity: host.Identity{Consumer: "alice", Key: "k1"}})
	r.host.step(host.Track{ID: a.ID, Epoch: a.Epoch, Process: host.Process{Pid: 7}})
	_, err = r.store.Track(t.Context(), a.ID, a.Epoch)
	r.must(err)
	c := r.deed("h1", "drain", because)
	if c.Unbooted != 1 || c.Running != 1 || c.Warning != "" {
		t.Errorf("%+v", c)
	}
	if intake := r.host.intake(); intake != host.IntakeDraining {
		t.Errorf("the agent was left %v", intake)
	}
	p := r.refused(api.HostDraining, "alice", "POST", "/v1/admissions", post("k3", "small"))
	if p.Tally["draining"] != 1 {
		t.Errorf("%+v", p)
	}
	r.refused(api.HostDraining, "alice", "POST", "/v1/admissions/k2/heartbeat", "")
	p = r.refused(api.HostStateConflict, "olga", "POST", "/v1/hosts/h1/bury", because)
	if !strings.Contains(p.Detail, "1 sandboxes") {
		t.Errorf("%+v", p)
	}
}
