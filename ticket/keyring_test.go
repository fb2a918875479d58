package ticket_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/ticket"
)

// TestRotationRefusesNoBoot walks the three steps, with holders one step behind or ahead of
// each other: every ticket that anybody may mint is accepted by everybody.
func TestRotationRefusesNoBoot(t *testing.T) {
	start := ring(t, "old", "old")
	fresh, err := ticket.NewRoot("new", ticket.VerifyOnly, secret(7))
	if err != nil {
		t.Fatal(err)
	}
	added, err := start.Add(fresh, noon)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := added.Sign("new", noon)
	if err != nil {
		t.Fatal(err)
	}
	dropped, err := signing.Drop("old")
	if err != nil {
		t.Fatal(err)
	}
	steps := []ticket.Keyring{start, added, signing, dropped}
	for i, minter := range steps {
		for j := max(0, i-1); j <= min(i+1, len(steps)-1); j++ {
			m, v := audience(t, minter, "host-1"), audience(t, steps[j], "host-1")
			if _, err := v.Verify(mint(t, m, sample()), ticket.Expect{}); err != nil {
				t.Errorf("minted at step %d, verified at step %d: %v", i, j, err)
			}
		}
	}
	last := audience(t, dropped, "host-1")
	if _, err := last.Verify(mint(t, audience(t, start, "host-1"), sample()), ticket.Expect{}); !errors.Is(err, ticket.Forged) {
		t.Errorf("a dropped root's ticket: %v", err)
	}
}

func TestKeyringRules(t *testing.T) {
	k := ring(t, "a", "a", "b")
	if _, err := k.Drop("a"); err == nil {
		t.Error("dropped the signing root")
	}
	if _, err := k.Drop("x"); err == nil {
		t.Error("dropped a root that is not there")
	}
	if _, err := k.Sign("x", noon); err == nil {
		t.Error("signs with a root that is not there")
	}
	twin, _ := ticket.NewRoot("a", ticket.VerifyOnly, secret(1))
	if _, err := k.Add(twin, noon); err == nil {
		t.Error("two roots of one name")
	}
	second, _ := ticket.NewRoot("c", ticket.Signing, secret(1))
	if _, err := k.Add(second, noon); err == nil {
		t.Error("two signing roots")
	}
	if _, err := ticket.NewKeyring(ticket.Root{}); err == nil {
		t.Error("a root without a secret")
	}
	for _, s := range [][]byte{nil, make([]byte, 31), make([]byte, 32), make([]byte, 129)} {
		if _, err := ticket.NewRoot("a", ticket.Signing, s); err == nil {
			t.Errorf("took a secret of %d equal bytes", len(s))
		}
	}
	silent := ring(t, "", "a")
	ks := audience(t, silent, "h")
	c := sample()
	if _, err := ks.Mint(&c); !errors.Is(err, ticket.ErrNoSigningKey) {
		t.Errorf("minted verify-only: %v", err)
	}
	if _, err := k.Audience(""); err == nil {
		t.Error("an audience without a name")
	}
}

func TestKeysFilesRoundTrip(t *testing.T) {
	k := ring(t, "b", "a", "b")
	file, err := k.EncodeFile()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ticket.ParseKeyring(file)
	if err != nil {
		t.Fatal(err)
	}
	ks := audience(t, k, "host-1")
	hostFile, err := ks.EncodeFile()
	if err != nil {
		t.Fatal(err)
	}
	host, err := ticket.ParseAudienceKeys(hostFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.Verify(mint(t, audience(t, back, "host-1"), sample()), ticket.Expect{}); err != nil {
		t.Error(err)
	}
	if bytes.Contains(hostFile, []byte(base64.StdEncoding.EncodeToString(secret('b')))) {
		t.Error("a host's file holds a root")
	}
	if _, err := ticket.ParseKeyring(hostFile); err == nil {
		t.Error("read a host's file as roots")
	}
	if _, err := ticket.ParseAudienceKeys(file); err == nil {
		t.Error("read roots as a host's file")
	}
}

func TestKeysFileErrorsSayWhere(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(secret(1))
	root := func(id, state, secret string) string {
		return fmt.Sprintf(`{"version":1,"roots":[{"id":%q,"state":%q,"secret":%q}]}`, id, state, secret)
	}
	for in, want := range map[string]string{
		``:                               "EOF",
		`{`:                              "EOF",
		`{"version":2}`:                  "version 2",
		`{"version":1,"rots":[]}`:        `unknown field "rots"`,
		`{"version":1} {}`:               "follows",
		`{"version":1}`:                  "1 to 16 roots, not 0",
		root("", "signing", good):        "root 1: ticket: a key id is 1 to 32",
		root("a b", "signing", good):     "has a character other than",
		root("a", "sign", good):          `state "sign" is neither`,
		root("a", "signing", good[:20]):  "secret is 15 bytes",
		root("a", "signing", "%%%%"):     "illegal base64",
		strings.Repeat(" ", 1<<16) + "{": "at most 65536",
	} {
		_, err := ticket.ParseKeyring([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q in it", in, err, want)
		}
	}
}

// TestNothingSecretIsPrinted writes everything that carries a secret with every verb, as JSON
// and through slog's two handlers, alone and inside a struct of somebody else's.
func TestNothingSecretIsPrinted(t *testing.T) {
	k := ring(t, "a", "a")
	ks := audience(t, k, "host-1")
	key, _ := ks.Signing()
	text := mint(t, ks, sample())
	claims, err := ks.Verify(text, ticket.Expect{})
	if err != nil {
		t.Fatal(err)
	}
	file, _ := ks.EncodeFile()
	var doc struct{ Keys []struct{ Secret []byte } }
	if err := json.Unmarshal(file, &doc); err != nil {
		t.Fatal(err)
	}
	secrets := []string{text.Reveal()[5:25], text.Reveal()[len(text)-20:], "acme", "run-4711"}
	for _, s := range [][]byte{secret('a'), doc.Keys[0].Secret} {
		secrets = append(secrets, string(s), fmt.Sprintf("%x", s), fmt.Sprintf("%d", s[:8]), base64.StdEncoding.EncodeToString(s))
	}
	for _, v := range []any{
		k, &k, k.Roots(), ks, &ks, key, *key, text, &text, claims, &claims,
		struct{ key ticket.AudienceKey }{*key},
		struct{ ring ticket.Keyring }{k},
		struct{ T ticket.Text }{text},
		map[string]ticket.Claims{"c": claims},
		errors.Join(ticket.Forged),
	} {
		for _, out := range printed(t, v) {
			for _, s := range secrets {
				if strings.Contains(out, strings.Trim(s, "[]")) {
					t.Errorf("%T prints %q: %s", v, s, out)
				}
			}
		}
	}
}

func printed(t *testing.T, v any) []string {
	t.Helper()
	var buf bytes.Buffer
	slog.New(slog.NewTextHandler(&buf, nil)).Info("m", "v", v)
	slog.New(slog.NewJSONHandler(&buf, nil)).Info("m", "v", v)
	out := []string{buf.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		out = append(out, fmt.Sprintf(verb, v))
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append(out, string(b))
}

func TestReasons(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range ticket.Reasons() {
		if seen[r.String()] || r.String() == "" || r.Err() == nil || !errors.Is(fmt.Errorf("boot: %w", r), r) {
			t.Errorf("%d: %q", r, r)
		}
		seen[r.String()] = true
	}
	if len(seen) != 9 || ticket.OK.Err() != nil || ticket.Reason(200).String() != "unknown" {
		t.Errorf("%v", seen)
	}
}

func TestDerivedKeysDifferByPurpose(t *testing.T) {
	k := ring(t, "b", "a", "b")
	receipts, err := k.Derive("receipt")
	if err != nil {
		t.Fatal(err)
	}
	others, _ := k.Derive("other")
	if receipts[0].ID != "b" || receipts[0].State != ticket.Signing || len(receipts) != 2 {
		t.Errorf("the signing root is not first: %v", receipts)
	}
	msg := []byte("m")
	mac := receipts[0].MAC.Append(nil, msg)
	if !receipts[0].MAC.Matches(msg, mac) || others[0].MAC.Matches(msg, mac) || receipts[1].MAC.Matches(msg, mac) {
		t.Error("keys are not separate")
	}
	if receipts[0].MAC.Matches(msg, mac[:15]) || !receipts[0].MAC.Matches(msg, mac[:16]) {
		t.Error("a short MAC")
	}
}
