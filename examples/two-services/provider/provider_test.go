package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/substrate"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// rig is the provider before a replica that lets each admission be redeemed by one instance.
type rig struct {
	t     *testing.T
	p     *provider
	front http.Handler
	ring  ticket.Keyring

	mu       sync.Mutex        // guards what follows
	redeemed map[string]string // ticket -> instance
	away     bool              // the replica answers 503
}

func newRig(t *testing.T, limit int) *rig {
	t.Helper()
	root, err := ticket.NewRoot("k1", ticket.Signing, []byte("no secret, for it stands in a test"))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, redeemed: map[string]string{}}
	if r.ring, err = ticket.NewKeyring(root); err != nil {
		t.Fatal(err)
	}
	replica := httptest.NewServer(http.HandlerFunc(r.replica))
	t.Cleanup(replica.Close)
	c, err := client.New(replica.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	r.p = newProvider(substrate.New(c, r.keys("account")), limit)
	r.front = r.p.routes()
	return r
}

func (r *rig) keys(audience string) ticket.AudienceKeys {
	r.t.Helper()
	keys, err := r.ring.Audience(ticket.ForSubstrate(audience))
	if err != nil {
		r.t.Fatal(err)
	}
	return keys
}

func (r *rig) mint(audience, id string, expires time.Time) string {
	r.t.Helper()
	keys := r.keys(audience)
	minted, err := keys.Mint(&ticket.Claims{
		Consumer: "ci", Key: id, Pool: "browser", Class: "ci-browser", Tenant: "ci", AdmissionID: id,
		Memory: gate.MiB, Epoch: 1, Issued: expires.Add(-10 * time.Minute), Expires: expires,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return minted.Reveal()
}

func (r *rig) replica(w http.ResponseWriter, q *http.Request) {
	var asked api.TicketRequest
	if err := json.NewDecoder(q.Body).Decode(&asked); err != nil {
		r.t.Error(err)
	}
	said, err := ticket.Inspect(ticket.Text(asked.Ticket))
	if err != nil {
		r.t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Header().Set("Content-Type", "application/problem+json")
	by, used := r.redeemed[asked.Ticket]
	switch {
	case r.away:
		w.WriteHeader(http.StatusInternalServerError)
		json.NewEncoder(w).Encode(map[string]any{"code": api.Internal, "status": 500})
	case used && by != asked.Instance:
		w.WriteHeader(http.StatusForbidden)
		json.NewEncoder(w).Encode(map[string]any{"code": api.TicketRejected, "status": 403, "reason": "replayed"})
	default:
		r.redeemed[asked.Ticket] = asked.Instance
		json.NewEncoder(w).Encode(api.Redemption{ID: said.AdmissionID, Epoch: said.Epoch, Class: said.Class, Pool: said.Pool})
	}
}

// put asks for a container, and returns the status.
func (r *rig) put(name, text string, runMS int64) int {
	r.t.Helper()
	body, err := json.Marshal(Order{Ticket: text, RunMS: runMS})
	if err != nil {
		r.t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r.front.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/containers/"+name, bytes.NewReader(body)))
	return w.Code
}

// Nothing boots but by a ticket that is good and was not used before.
func TestNoTicketNoBoot(t *testing.T) {
	r := newRig(t, 10)
	good := r.mint("account", "adm-1", time.Now().Add(time.Minute))
	for _, try := range []struct {
		name, text string
		status     int
	}{
		{"missing", "", 403},
		{"malformed", "plm1.made-up", 403},
		{"forged", good[:len(good)-2] + "AA", 403},
		{"expired", r.mint("account", "adm-2", time.Now().Add(-time.Minute)), 403},
		{"elsewhere", r.mint("elsewhere", "adm-3", time.Now().Add(time.Minute)), 403},
		{"no-good-name!", good, 400},
		{"web-1", good, 201},
		{"web-1", good, 200},
		{"web-2", good, 403}, // replayed
	} {
		if got := r.put(try.name, try.text, 60_000); got != try.status {
			t.Errorf("%s: %d, want %d", try.name, got, try.status)
		}
	}
	a := r.p.count()
	if a.Boots != 1 || a.Running != 1 || a.AtLimit != 0 || a.Refused["missing"] != 1 || a.Refused["forged"] != 1 ||
		a.Refused["expired"] != 1 || a.Refused["replayed"] != 1 || len(r.redeemed) != 1 {
		t.Errorf("%+v, and %d redeemed", a, len(r.redeemed))
	}
}

// A gate that does not answer is no yes.
func TestNoAnswerNoBoot(t *testing.T) {
	r := newRig(t, 10)
	r.away = true
	if got := r.put("web-1", r.mint("account", "adm-1", time.Now().Add(time.Minute)), 60_000); got != http.StatusServiceUnavailable {
		t.Errorf("%d, want 503", got)
	}
	if a := r.p.count(); a.Boots != 0 {
		t.Errorf("%+v", a)
	}
}

// The account's own limit is the last resort, and counted.
func TestTheLimit(t *testing.T) {
	r := newRig(t, 1)
	if got := r.put("a", r.mint("account", "adm-a", time.Now().Add(time.Minute)), 60_000); got != http.StatusCreated {
		t.Errorf("%d, want 201", got)
	}
	if got := r.put("b", r.mint("account", "adm-b", time.Now().Add(time.Minute)), 60_000); got != http.StatusTooManyRequests {
		t.Errorf("%d, want 429", got)
	}
	r.p.end("a")
	r.p.end("a") // twice is once
	if got := r.put("c", r.mint("account", "adm-c", time.Now().Add(time.Minute)), 60_000); got != http.StatusCreated {
		t.Errorf("%d, want 201", got)
	}
	if a := r.p.count(); a.AtLimit != 1 || a.Peak != 1 || a.Running != 1 || a.Boots != 2 {
		t.Errorf("%+v", a)
	}
}
