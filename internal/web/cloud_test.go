package web_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// Two services, two substrates and no host at all. Tokens are as in fleetDocument.
const cloudDocument = `
ceiling: 12
pools:
  - {name: browser, placement: none, audience: cloud, cap: 4, max_waiting: 10, shares: [{consumer: chat, reserved: 1}, {consumer: ci, reserved: 0, max: 2}]}
  - {name: lab, placement: none, cap: 2, max_waiting: 2}
  - {name: solo, placement: none, audience: cloud, cap: 1, max_waiting: 10}
classes:
  - {name: chrome, pool: browser, memory: 512MiB}
  - {name: bench, pool: lab}
  - {name: one, pool: solo, memory: 256MiB}
default_quota: none
consumers:
`

var cloudRoles = []struct{ name, more string }{
	{"chat", "roles: [consumer]"},
	{"ci", "roles: [consumer]"},
	{"eve", "roles: [consumer]"},
	{"provider", "roles: [substrate], audiences: [cloud]"},
	{"stranger", "roles: [substrate], audiences: [lab]"},
	{"olga", "roles: [operator]"},
	{"root", "roles: [admin]"},
}

func cloud() string {
	text := cloudDocument
	for _, c := range cloudRoles {
		text += fmt.Sprintf("  - {name: %s, %s, token_sha256: [%x]}\n", c.name, c.more, sha256.Sum256([]byte(c.name+c.name)))
	}
	return text
}

func newCloud(t testing.TB) *rig { return newRig(t, options{noHost: true, document: cloud()}) }

// admit is a post that must be answered with a ticket.
func (r *rig) admit(who, key, class string) api.Admission {
	r.t.Helper()
	a := r.call(who, "POST", "/v1/admissions", fmt.Sprintf(`{"key":%q,"class":%q}`, key, class))
	if a.Status != http.StatusCreated && a.Status != http.StatusOK {
		r.t.Fatalf("%s %s: %d %s", who, key, a.Status, a.Body)
	}
	return a.admission()
}

func ticketBody(text, instance string) string {
	if instance == "" {
		return fmt.Sprintf(`{"ticket":%q}`, text)
	}
	return fmt.Sprintf(`{"ticket":%q,"instance":%q}`, text, instance)
}

// redeem is a redemption that must be granted.
func (r *rig) redeem(who, text, instance string) (out api.Redemption) {
	r.t.Helper()
	a := r.call(who, "POST", "/v1/tickets:redeem", ticketBody(text, instance))
	if a.Status != http.StatusOK {
		r.t.Fatalf("redeem: %d %s", a.Status, a.Body)
	}
	a.into(&out)
	return out
}

// rejects proves that a ticket boots nothing, for this reason, neither by word nor by deed.
func (r *rig) rejects(why ticket.Reason, who, text, instance string) api.Problem {
	r.t.Helper()
	var p api.Problem
	for _, path := range []string{"/v1/tickets:verify", "/v1/tickets:redeem"} {
		p = r.refused(api.TicketRejected, who, "POST", path, ticketBody(text, instance))
		if string(p.Reason) != why.String() || p.Retryable || p.Scope != api.ScopeRequest {
			r.t.Errorf("%s: %+v, want %s", path, p, why)
		}
	}
	return p
}

// keysOf are an audience's, as an admin gets them.
func (r *rig) keysOf(audience string) ticket.AudienceKeys {
	r.t.Helper()
	keys, err := r.sdk("root").AudienceKeys(r.t.Context(), audience)
	r.must(err)
	return keys
}

// sdk is the Go client of somebody.
func (r *rig) sdk(who string) *client.Client {
	r.t.Helper()
	c, err := client.New(r.server.URL, who+who)
	r.must(err)
	return c
}

// forge changes what a ticket claims and signs it with the same audience's key, as a
// substrate could.
func (r *rig) forge(text, audience string, change func(*ticket.Claims)) string {
	r.t.Helper()
	c, err := ticket.Inspect(ticket.Text(text))
	r.must(err)
	c.Audience, c.KeyID = "", ""
	change(&c)
	keys := r.keysOf(audience)
	out, err := keys.Mint(&c)
	r.must(err)
	return out.Reveal()
}

// outlive lets the store's clock go on while replicas write their pulse, and sweeps.
func (r *rig) outlive(d time.Duration) {
	r.t.Helper()
	const step = 10 * time.Second
	for ; d > 0; d -= step {
		r.clock.Advance(min(step, d))
		_, err := r.store.Sweep(r.t.Context())
		r.must(err)
	}
}

// metric is a line of /metrics.
func (r *rig) metric(pattern string) string {
	r.t.Helper()
	return string(regexp.MustCompile("(?m)^" + pattern + " .*$").Find(r.call("", "GET", "/metrics", "").Body))
}
