package substrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/substrate"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ticket"
)

var issued = time.Date(2026, 8, 6, 12, 0, 0, 0, time.UTC)

func root(t testing.TB, id string, state ticket.State, secret string) ticket.Root {
	t.Helper()
	r, err := ticket.NewRoot(id, state, []byte(strings.Repeat(secret, 16)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keysOf(t testing.TB, audience string, roots ...ticket.Root) ticket.AudienceKeys {
	t.Helper()
	ring, err := ticket.NewKeyring(roots...)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ring.Audience(ticket.ForSubstrate(audience))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func claims() *ticket.Claims {
	return &ticket.Claims{
		Consumer: "ci", Key: "run-7", Pool: "browser", Class: "chrome", Tenant: "ci", AdmissionID: "adm-1",
		Memory: 512 * gate.MiB, Epoch: 7, Issued: issued, Expires: issued.Add(10 * time.Minute),
	}
}

func mint(t testing.TB, keys ticket.AudienceKeys) string {
	t.Helper()
	text, err := keys.Mint(claims())
	if err != nil {
		t.Fatal(err)
	}
	return text.Reveal()
}

// TestVerify: every claim is checked, and every doubt is a no with its reason.
func TestVerify(t *testing.T) {
	k1 := root(t, "k1", ticket.Signing, "k1")
	keys := keysOf(t, "cloud", k1)
	good := mint(t, keys)
	now := issued
	g := substrate.New(nil, keys, substrate.WithClock(func() time.Time { return now }))
	end := issued.Add(10*time.Minute + ticket.Skew)
	for name, c := range map[string]struct {
		text string
		at   time.Time
		want ticket.Reason
	}{
		"good":                       {good, issued, ticket.OK},
		"a clock that runs late":     {good, issued.Add(-time.Hour), ticket.OK},
		"the last moment":            {good, end.Add(-time.Millisecond), ticket.OK},
		"past it":                    {good, end, ticket.Expired},
		"none":                       {"", issued, ticket.Missing},
		"something else":             {"Bearer " + good, issued, ticket.Malformed},
		"cut short":                  {good[:len(good)-8], issued, ticket.Malformed},
		"one bit":                    {good[:60] + flip(good[60]) + good[61:], issued, ticket.Forged},
		"for another audience":       {mint(t, keysOf(t, "lab", k1)), issued, ticket.OtherHost},
		"of another root":            {mint(t, keysOf(t, "cloud", root(t, "k1", ticket.Signing, "k2"))), issued, ticket.Forged},
		"of a root not yet known":    {mint(t, keysOf(t, "cloud", root(t, "k2", ticket.Signing, "k2"))), issued, ticket.Forged},
		"of a host of the same name": {mint(t, hostKeys(t, "cloud", k1)), issued, ticket.OtherHost},
	} {
		now = c.at
		got, err := g.Verify(c.text)
		if c.want == ticket.OK {
			if err != nil || got.Consumer != "ci" || got.Key != "run-7" || got.Epoch != 7 || got.Memory != 512*gate.MiB {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if !errors.Is(err, c.want) || !errors.Is(err, api.TicketRejected) || got != (ticket.Claims{}) {
			t.Errorf("%s: %v, want %s; claims %+v", name, err, c.want, got)
		}
		if c.text != "" && strings.Contains(err.Error(), c.text[len(c.text)-20:]) {
			t.Errorf("%s: %v repeats the ticket", name, err)
		}
	}
}

func hostKeys(t *testing.T, name string, r ticket.Root) ticket.AudienceKeys {
	t.Helper()
	ring, err := ticket.NewKeyring(r)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ring.Audience(name)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// TestRotation: whether a new key is here before it signs or not, no boot is refused.
func TestRotation(t *testing.T) {
	old, next := root(t, "k1", ticket.Signing, "k1"), root(t, "k2", ticket.VerifyOnly, "k2")
	before := keysOf(t, "cloud", old)
	ring, err := ticket.NewKeyring(old, next)
	if err != nil {
		t.Fatal(err)
	}
	signs, err := ring.Sign("k2", issued)
	if err != nil {
		t.Fatal(err)
	}
	after, err := signs.Audience(ticket.ForSubstrate("cloud"))
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{answers: func(_ int64, q api.TicketRequest) (int, any) { return 200, admits(q) }}
	g := serve(t, r, before)
	if _, err := g.Verify(mint(t, after)); !errors.Is(err, ticket.Forged) || !strings.Contains(err.Error(), `"k2"; here are k1`) {
		t.Errorf("a key that is not here yet: %v", err)
	}
	if _, err := g.Redeem(t.Context(), mint(t, after), "vm-1"); err != nil || r.asked.Load() != 1 {
		t.Errorf("the replica knows the key, and is not asked: %v", err)
	}
	g.SetKeys(keysOf(t, "cloud", old, next))
	for _, keys := range []ticket.AudienceKeys{before, after} {
		if _, err := g.Verify(mint(t, keys)); err != nil {
			t.Error(err)
		}
	}
}

// replica answers redemptions as it is told.
type replica struct {
	asked   atomic.Int64
	answers func(n int64, q api.TicketRequest) (status int, body any)
}

func (r *replica) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var ask api.TicketRequest
	if q.Method != http.MethodPost || q.URL.Path != "/v1/tickets:redeem" || json.NewDecoder(q.Body).Decode(&ask) != nil {
		http.NotFound(w, q)
		return
	}
	status, body := r.answers(r.asked.Add(1), ask)
	if status == 0 {
		panic(http.ErrAbortHandler) // redeemed, and the answer is lost
	}
	kind := "application/json"
	if status >= 400 {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

func serve(t testing.TB, r *replica, keys ticket.AudienceKeys) *substrate.Gate {
	t.Helper()
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, "token", client.WithRandom(func() uint64 { return 0 }))
	if err != nil {
		t.Fatal(err)
	}
	return substrate.New(c, keys, substrate.WithClock(func() time.Time { return issued }))
}

func admits(q api.TicketRequest) api.Redemption {
	return api.Redemption{ID: "adm-1", Epoch: 7, Key: "run-7", MemoryMB: 512, Instance: q.Instance}
}

// TestLostAnswer: the answer to a redemption was lost (T75), so it is asked for again under
// the same instance.
func TestLostAnswer(t *testing.T) {
	keys := keysOf(t, "cloud", root(t, "k1", ticket.Signing, "k1"))
	seen := make(chan string, 8)
	r := &replica{answers: func(n int64, q api.TicketRequest) (int, any) {
		seen <- q.Instance
		switch n {
		case 1:
			return 0, nil
		case 2:
			return 503, api.Problem{Code: api.Unavailable, Status: 503, RetryAfterMS: 1}
		}
		return 200, admits(q)
	}}
	got, err := serve(t, r, keys).Redeem(t.Context(), mint(t, keys), "vm-1")
	if err != nil || got.MemoryMB != 512 || r.asked.Load() != 3 {
		t.Fatalf("%+v, %v, after %d", got, err, r.asked.Load())
	}
	for range 3 {
		if name := <-seen; name != "vm-1" {
			t.Errorf("asked as %q", name)
		}
	}
}

// TestNothingBoots: whatever is no yes is an error, final or not as the server means it, and
// what can be judged here is never asked.
func TestNothingBoots(t *testing.T) {
	keys := keysOf(t, "cloud", root(t, "k1", ticket.Signing, "k1"))
	good := mint(t, keys)
	problem := func(code api.Code, reason string) func(int64, api.TicketRequest) (int, any) {
		return func(int64, api.TicketRequest) (int, any) {
			return code.Meaning().Status, api.Problem{Code: code, Status: code.Meaning().Status, Reason: api.TicketReason(reason), Detail: "why"}
		}
	}
	other := func(_ int64, q api.TicketRequest) (int, any) {
		a := admits(q)
		a.Epoch = 8
		return 200, a
	}
	for name, c := range map[string]struct {
		text, instance string
		answers        func(int64, api.TicketRequest) (int, any)
		asked          int64
		want           error
	}{
		"no ticket":          {"", "vm-1", nil, 0, ticket.Missing},
		"no instance":        {good, "", nil, 0, nil},
		"released":           {good, "vm-1", problem(api.TicketRejected, "released"), 1, ticket.Released},
		"replayed":           {good, "vm-1", problem(api.TicketRejected, "replayed"), 1, ticket.Replayed},
		"superseded":         {good, "vm-1", problem(api.TicketRejected, "superseded"), 1, ticket.Superseded},
		"a new reason":       {good, "vm-1", problem(api.TicketRejected, "cursed"), 1, api.TicketRejected},
		"a wrong token":      {good, "vm-1", problem(api.Unauthenticated, ""), 1, api.Unauthenticated},
		"unknown, not now":   {good, "vm-1", problem(api.ReservationLapsed, ""), 1, api.ReservationLapsed},
		"another's answer":   {good, "vm-1", other, 1, nil},
		"a page of a proxy":  {good, "vm-1", func(int64, api.TicketRequest) (int, any) { return 200, "welcome" }, 1, nil},
		"a server's failure": {good, "vm-1", func(int64, api.TicketRequest) (int, any) { return 500, nil }, 1, api.Internal},
	} {
		r := &replica{answers: c.answers}
		got, err := serve(t, r, keys).Redeem(t.Context(), c.text, c.instance)
		if err == nil || got != nil || (c.want != nil && !errors.Is(err, c.want)) || r.asked.Load() != c.asked {
			t.Errorf("%s: %+v, %v, asked %d times", name, got, err, r.asked.Load())
		}
	}
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close() // nobody is there
	c, err := client.New(s.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = substrate.New(c, keys, substrate.WithClock(func() time.Time { return issued })).Redeem(ctx, good, "vm-1")
	if err == nil {
		t.Error("booted with nobody there")
	}
}
