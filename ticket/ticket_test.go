package ticket_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ticket"
)

var noon = time.Date(2026, 9, 8, 12, 0, 0, 0, time.UTC)

func secret(fill byte) []byte {
	s := make([]byte, 32)
	for i := range s {
		s[i] = fill + byte(i)
	}
	return s
}

func ring(t testing.TB, signing string, ids ...string) ticket.Keyring {
	t.Helper()
	var roots []ticket.Root
	for _, id := range ids {
		state := ticket.VerifyOnly
		if id == signing {
			state = ticket.Signing
		}
		r, err := ticket.NewRoot(id, state, secret(id[0]))
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, r)
	}
	k, err := ticket.NewKeyring(roots...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func audience(t testing.TB, k ticket.Keyring, name string) ticket.AudienceKeys {
	t.Helper()
	ks, err := k.Audience(name)
	if err != nil {
		t.Fatal(err)
	}
	return ks
}

func sample() ticket.Claims {
	return ticket.Claims{
		Consumer: "flare-dispatch", Key: "run-4711", Pool: "browser", Class: "ci", Tenant: "acme",
		AdmissionID: "adm-01J7Z", Memory: 4 * gate.GiB, Epoch: 42, Issued: noon, Expires: noon.Add(time.Minute),
	}
}

func mint(t testing.TB, ks ticket.AudienceKeys, c ticket.Claims) ticket.Text {
	t.Helper()
	text, err := ks.Mint(&c)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// stamped is what Verify should return of minted claims.
func stamped(c ticket.Claims, keyID, audience string) ticket.Claims {
	c.Version, c.KeyID, c.Audience = ticket.Version, keyID, audience
	return c
}

func TestEveryClaimIsChecked(t *testing.T) {
	host := audience(t, ring(t, "a", "a"), "host-1")
	text := mint(t, host, sample())
	full := ticket.Expect{
		Audience: "host-1", Consumer: "flare-dispatch", Key: "run-4711", AdmissionID: "adm-01J7Z",
		Pool: "browser", Class: "ci", Epoch: 42, Now: noon.Add(time.Minute),
	}

	for _, tc := range []struct {
		name   string
		change func(*ticket.Expect)
		want   ticket.Reason
	}{
		{"as minted", func(*ticket.Expect) {}, ticket.OK},
		{"nothing asked", func(e *ticket.Expect) { *e = ticket.Expect{} }, ticket.OK},
		{"another audience", func(e *ticket.Expect) { e.Audience = "host-2" }, ticket.OtherHost},
		{"another consumer", func(e *ticket.Expect) { e.Consumer = "fractalbot" }, ticket.OtherKey},
		{"another key", func(e *ticket.Expect) { e.Key = "run-4712" }, ticket.OtherKey},
		{"another admission", func(e *ticket.Expect) { e.AdmissionID = "adm-2" }, ticket.OtherKey},
		{"another pool", func(e *ticket.Expect) { e.Pool = "lean" }, ticket.OtherKey},
		{"another class", func(e *ticket.Expect) { e.Class = "task" }, ticket.OtherKey},
		{"superseded", func(e *ticket.Expect) { e.Epoch = 43 }, ticket.Superseded},
		{"from an epoch not known here", func(e *ticket.Expect) { e.Epoch = 41 }, ticket.Superseded},
		{"last millisecond of the skew", func(e *ticket.Expect) { e.Now = noon.Add(time.Minute + ticket.Skew - time.Millisecond) }, ticket.OK},
		{"past the skew", func(e *ticket.Expect) { e.Now = noon.Add(time.Minute + ticket.Skew) }, ticket.Expired},
		{"no wall clock on a host", func(e *ticket.Expect) { e.Now = time.Time{} }, ticket.OK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := full
			tc.change(&e)
			got, err := host.Verify(text, e)
			if !errors.Is(err, tc.want.Err()) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			want := ticket.Claims{}
			if tc.want == ticket.OK {
				want = stamped(sample(), "a", "host-1")
			}
			if want != got {
				t.Errorf("claims: %v", got)
			}
		})
	}
}

func TestRefusedTexts(t *testing.T) {
	k := ring(t, "a", "a")
	host, good := audience(t, k, "host-1"), mint(t, audience(t, k, "host-1"), sample()).Reveal()
	foreign := mint(t, audience(t, k, "host-2"), sample())
	unknownID := mint(t, audience(t, ring(t, "b", "b"), "host-1"), sample())
	otherRoot, err := ticket.NewRoot("a", ticket.Signing, secret(99))
	if err != nil {
		t.Fatal(err)
	}
	liar, _ := ticket.NewKeyring(otherRoot)

	for name, tc := range map[string]struct {
		text ticket.Text
		want ticket.Reason
	}{
		"none":                  {"", ticket.Missing},
		"prefix alone":          {"plm1.", ticket.Malformed},
		"no prefix":             {ticket.Text(good[5:]), ticket.Malformed},
		"another prefix":        {ticket.Text("plm2." + good[5:]), ticket.Malformed},
		"line end inside":       {ticket.Text(good[:20] + "\n" + good[20:]), ticket.Malformed},
		"carriage return":       {ticket.Text(good + "\r"), ticket.Malformed},
		"padding":               {ticket.Text(good + "="), ticket.Malformed},
		"one byte more":         {ticket.Text(good + "AAAA"), ticket.Malformed},
		"giant":                 {ticket.Text("plm1." + strings.Repeat("A", 1<<20)), ticket.Malformed},
		"for another host":      {foreign, ticket.OtherHost},
		"unknown key id":        {unknownID, ticket.Forged},
		"same id, another root": {mint(t, audience(t, liar, "host-1"), sample()), ticket.Forged},
	} {
		if _, err := host.Verify(tc.text, ticket.Expect{}); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
}

// Trap 11 (design.md §13): one symmetric key everywhere lets one broken host mint for all.
func TestOneHostCannotMintForAnother(t *testing.T) {
	k := ring(t, "a", "a")
	broken, victim := audience(t, k, "host-1"), audience(t, k, "host-2")
	c := sample()
	c.Audience = "host-2"
	if _, err := broken.Mint(&c); err == nil {
		t.Error("the keys of host-1 minted for host-2")
	}
	forged := strings.Replace(mint(t, broken, sample()).Reveal(), "host-1", "host-2", 1)
	if _, err := victim.Verify(ticket.Text(forged), ticket.Expect{}); err == nil {
		t.Error("host-2 accepted a ticket minted with host-1's keys")
	}
}

func TestBounds(t *testing.T) {
	host := audience(t, ring(t, "a", "a"), "host-1")
	long := strings.Repeat("x", ticket.MaxName+1)
	for name, change := range map[string]func(*ticket.Claims){
		"consumer":         func(c *ticket.Claims) { c.Consumer = long },
		"key":              func(c *ticket.Claims) { c.Key = long },
		"pool":             func(c *ticket.Claims) { c.Pool = long },
		"class":            func(c *ticket.Claims) { c.Class = long },
		"tenant":           func(c *ticket.Claims) { c.Tenant = long },
		"admission id":     func(c *ticket.Claims) { c.AdmissionID = long },
		"no admission":     func(c *ticket.Claims) { c.AdmissionID = "" },
		"memory":           func(c *ticket.Claims) { c.Memory = -1 },
		"epoch":            func(c *ticket.Claims) { c.Epoch = -1 },
		"version":          func(c *ticket.Claims) { c.Version = 2 },
		"ends at its mint": func(c *ticket.Claims) { c.Expires = c.Issued },
		"before 1970":      func(c *ticket.Claims) { c.Issued = time.Time{} },
		"after 9999":       func(c *ticket.Claims) { c.Expires = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		c := sample()
		change(&c)
		if b, err := host.AppendMint(nil, &c); err == nil || len(b) != 0 {
			t.Errorf("%s: minted", name)
		}
	}
}

func TestLargestTicketFits(t *testing.T) {
	id, max := strings.Repeat("k", ticket.MaxKeyID), strings.Repeat("x", ticket.MaxName)
	host := audience(t, ring(t, id, id), max)
	c := sample()
	c.Consumer, c.Key, c.Pool, c.Class, c.Tenant, c.AdmissionID = max, max, max, max, max, max
	text := mint(t, host, c)
	if len(text) != ticket.MaxText {
		t.Errorf("%d characters, MaxText says %d", len(text), ticket.MaxText)
	}
	if got, err := host.Verify(text, ticket.Expect{}); err != nil || got != stamped(c, id, max) {
		t.Errorf("got %v", err)
	}
}

func claimsGen() *rapid.Generator[ticket.Claims] {
	name := rapid.StringOfN(rapid.Rune(), 0, 20, ticket.MaxName)
	return rapid.Custom(func(t *rapid.T) ticket.Claims {
		issued := rapid.Int64Range(0, 4e12).Draw(t, "issued")
		return ticket.Claims{
			Consumer: name.Draw(t, "consumer"), Key: name.Draw(t, "key"), Pool: name.Draw(t, "pool"),
			Class: name.Draw(t, "class"), Tenant: name.Draw(t, "tenant"), AdmissionID: "a" + rapid.StringN(0, 9, 40).Draw(t, "id"),
			Memory: gate.Bytes(rapid.Int64Min(0).Draw(t, "memory")), Epoch: rapid.Int64Min(0).Draw(t, "epoch"),
			Issued:  time.UnixMilli(issued).UTC(),
			Expires: time.UnixMilli(issued + rapid.Int64Range(1, 1e12).Draw(t, "life")).UTC(),
		}
	})
}

func TestRoundTrip(t *testing.T) {
	host := audience(t, ring(t, "a", "a", "b"), "host-1")
	rapid.Check(t, func(rt *rapid.T) {
		c := claimsGen().Draw(rt, "claims")
		text, err := host.Mint(&c)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := host.Verify(text, ticket.Expect{Key: c.Key, Epoch: c.Epoch})
		if err != nil || got != stamped(c, "a", "host-1") {
			rt.Fatalf("%v: got %#v", err, got)
		}
		again, err := host.Mint(&got)
		if err != nil || again.Reveal() != text.Reveal() {
			rt.Fatalf("not canonical: %v", err)
		}
	})
}

// A heartbeat re-mints: same epoch, later expiry, another MAC; nothing is extended in place.
func TestRemintIsAnotherTicket(t *testing.T) {
	host := audience(t, ring(t, "a", "a"), "host-1")
	first := sample()
	second := first
	second.Issued, second.Expires = first.Issued.Add(20*time.Second), first.Expires.Add(20*time.Second)
	a, b := mint(t, host, first).Reveal(), mint(t, host, second).Reveal()
	if a == b || a[len(a)-43:] == b[len(b)-43:] {
		t.Error("the later ticket carries the earlier one's MAC")
	}
}

func TestHotPathsAllocateNothing(t *testing.T) {
	host := audience(t, ring(t, "b", "a", "b"), "host-1")
	c, e, v := sample(), ticket.Expect{Key: "run-4711", Epoch: 42, Now: noon}, new(ticket.View)
	buf := make([]byte, 0, ticket.MaxText)
	text := mint(t, host, c)
	if n := testing.AllocsPerRun(100, func() { buf, _ = host.AppendMint(buf[:0], &c) }); n != 0 {
		t.Errorf("mint: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if r := host.VerifyView(v, text, &e); r != ticket.OK {
			t.Fatal(r)
		}
	}); n != 0 {
		t.Errorf("verify: %v allocations", n)
	}
}

func BenchmarkMint(b *testing.B) {
	host := audience(b, ring(b, "a", "a"), "host-1")
	c, buf := sample(), make([]byte, 0, ticket.MaxText)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = host.AppendMint(buf[:0], &c)
	}
}

func BenchmarkVerify(b *testing.B) {
	host := audience(b, ring(b, "a", "a"), "host-1")
	text, e, v := mint(b, host, sample()), ticket.Expect{Key: "run-4711", Epoch: 42}, new(ticket.View)
	b.ReportAllocs()
	for b.Loop() {
		if r := host.VerifyView(v, text, &e); r != ticket.OK {
			b.Fatal(r)
		}
	}
}
