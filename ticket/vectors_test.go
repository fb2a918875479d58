package ticket_test

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/transcript"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// vectors is the file that libraries in other languages are tested against.
type vectors struct {
	About    string        `json:"about"`
	Roots    []vectorRoot  `json:"roots"`
	Audience string        `json:"audience"`
	Keys     []vectorRoot  `json:"audience_keys"`
	Valid    []vectorValid `json:"valid"`
	Invalid  []vectorBad   `json:"invalid"`
}

type vectorRoot struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Hex   string `json:"secret_hex"`
}

type vectorClaims struct {
	Version     uint8  `json:"version"`
	KeyID       string `json:"key_id"`
	Audience    string `json:"audience"`
	Consumer    string `json:"consumer"`
	Key         string `json:"key"`
	Pool        string `json:"pool"`
	Class       string `json:"class"`
	Tenant      string `json:"tenant"`
	AdmissionID string `json:"admission_id"`
	MemoryBytes int64  `json:"memory_bytes"`
	Epoch       int64  `json:"epoch"`
	IssuedMS    int64  `json:"issued_ms"`
	ExpiresMS   int64  `json:"expires_ms"`
}

type vectorValid struct {
	Name   string       `json:"name"`
	Claims vectorClaims `json:"claims"`
	Raw    string       `json:"claims_hex"`
	Text   string       `json:"text"`
}

type vectorBad struct {
	Name   string `json:"name"`
	Text   string `json:"text"`
	NowMS  int64  `json:"now_ms,omitempty"`
	Key    string `json:"expect_key,omitempty"`
	Epoch  int64  `json:"expect_epoch,omitempty"`
	Reason string `json:"reason"`
}

func toVector(c ticket.Claims) vectorClaims {
	return vectorClaims{
		c.Version, c.KeyID, c.Audience, c.Consumer, c.Key, c.Pool, c.Class, c.Tenant, c.AdmissionID,
		int64(c.Memory), c.Epoch, c.Issued.UnixMilli(), c.Expires.UnixMilli(),
	}
}

func (v vectorClaims) claims() ticket.Claims {
	return ticket.Claims{
		Version: v.Version, KeyID: v.KeyID, Audience: v.Audience, Consumer: v.Consumer, Key: v.Key,
		Pool: v.Pool, Class: v.Class, Tenant: v.Tenant, AdmissionID: v.AdmissionID, Memory: gate.Bytes(v.MemoryBytes),
		Epoch: v.Epoch, Issued: time.UnixMilli(v.IssuedMS).UTC(), Expires: time.UnixMilli(v.ExpiresMS).UTC(),
	}
}

func TestVectors(t *testing.T) {
	want := makeVectors(t)
	if transcript.Updating() {
		if err := os.WriteFile("testdata/vectors.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("testdata/vectors.json no longer says what this package does: tickets of other versions would be refused")
	}
	var v vectors
	if err := json.Unmarshal(got, &v); err != nil {
		t.Fatal(err)
	}
	checkByTheBook(t, v)
}

// checkByTheBook verifies every vector with nothing but the standard library, as a library in
// another language would.
func checkByTheBook(t *testing.T, v vectors) {
	keys := map[string][]byte{}
	for i, r := range v.Roots {
		root, _ := hex.DecodeString(r.Hex)
		key, err := hkdf.Key(sha256.New, root, []byte("plimsoll/v1"), "ticket\x00"+v.Audience, 32)
		if err != nil || hex.EncodeToString(key) != v.Keys[i].Hex {
			t.Errorf("key %s: %v", r.ID, err)
		}
		keys[r.ID] = key
	}
	for _, c := range v.Valid {
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(c.Text, "plm1."))
		if err != nil {
			t.Fatal(err)
		}
		claims := raw[:len(raw)-32]
		h := hmac.New(sha256.New, keys[c.Claims.KeyID])
		h.Write(claims)
		if hex.EncodeToString(claims) != c.Raw || !hmac.Equal(h.Sum(nil), raw[len(raw)-32:]) {
			t.Errorf("%s: the MAC is not HMAC-SHA256 of the claims", c.Name)
		}
	}
}

func makeVectors(t *testing.T) []byte {
	k := ring(t, "2026-09", "2026-09", "1970-01")
	host := audience(t, k, "host-1")
	old, _ := k.Sign("1970-01", noon)
	v := vectors{
		About:    "Tickets that every library must accept, and refuse with the reason given. Secrets are for tests only.",
		Audience: "host-1",
		Roots: []vectorRoot{
			{"2026-09", "signing", hex.EncodeToString(secret('2'))},
			{"1970-01", "verify-only", hex.EncodeToString(secret('1'))},
		},
	}
	v.Keys = hostKeys(t, host)
	bare := ticket.Claims{AdmissionID: "x", Issued: time.UnixMilli(0), Expires: time.UnixMilli(1)}
	wide := sample()
	wide.Tenant, wide.Key, wide.Memory = "größe/テナント", strings.Repeat("k", ticket.MaxName), 1<<62
	v.add(t, host, "an everyday ticket", sample())
	v.add(t, host, "the least claims", bare)
	v.add(t, host, "names outside ASCII, a key of 128 bytes", wide)
	v.add(t, audience(t, old, "host-1"), "signed by the root that is verify-only by now", sample())

	good := v.Valid[0].Text
	flipped := []byte(good)
	flipped[len(flipped)-10] ^= 1
	foreign := mint(t, audience(t, k, "host-2"), sample()).Reveal()
	end := sample().Expires.Add(ticket.Skew).UnixMilli()
	v.Invalid = []vectorBad{
		{Name: "no ticket", Reason: "missing"},
		{Name: "another prefix", Text: "plm0." + good[5:], Reason: "malformed"},
		{Name: "cut off", Text: good[:60], Reason: "malformed"},
		{Name: "a line end inside", Text: good[:60] + "\n" + good[60:], Reason: "malformed"},
		{Name: "padded", Text: good + "=", Reason: "malformed"},
		{Name: "bits beyond the last byte", Text: trailingBits(v.Valid), Reason: "malformed"},
		{Name: "one bit of the MAC flipped", Text: string(flipped), Reason: "forged"},
		{Name: "a root that is not held", Text: mint(t, audience(t, ring(t, "x", "x"), "host-1"), sample()).Reveal(), Reason: "forged"},
		{Name: "for another host", Text: foreign, Reason: "other_host"},
		{Name: "for another key", Text: good, Key: "run-1", Reason: "other_key"},
		{Name: "of an earlier epoch", Text: good, Epoch: 43, Reason: "superseded"},
		{Name: "past its end and the skew of 30 s", Text: good, NowMS: end, Reason: "expired"},
	}
	for _, b := range v.Invalid {
		e := ticket.Expect{Key: b.Key, Epoch: b.Epoch}
		if b.NowMS != 0 {
			e.Now = time.UnixMilli(b.NowMS)
		}
		var view ticket.View
		if r := host.VerifyView(&view, ticket.Text(b.Text), &e); r.String() != b.Reason {
			t.Errorf("%s: %v, want %s", b.Name, r, b.Reason)
		}
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// trailingBits returns a valid text with a last character that decodes to the same bytes.
func trailingBits(valid []vectorValid) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, c := range valid {
		if body := c.Text[len(ticket.Prefix):]; len(body)%4 != 0 {
			last := strings.IndexByte(alphabet, body[len(body)-1])
			return c.Text[:len(c.Text)-1] + alphabet[last+1:last+2]
		}
	}
	return ""
}

func hostKeys(t *testing.T, ks ticket.AudienceKeys) (out []vectorRoot) {
	file, err := ks.EncodeFile()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Keys []struct {
			ID, State string
			Secret    []byte
		}
	}
	if err := json.Unmarshal(file, &doc); err != nil {
		t.Fatal(err)
	}
	for _, k := range doc.Keys {
		out = append(out, vectorRoot{k.ID, k.State, hex.EncodeToString(k.Secret)})
	}
	return out
}

func (v *vectors) add(t *testing.T, ks ticket.AudienceKeys, name string, c ticket.Claims) {
	text := mint(t, ks, c)
	got, err := ks.Verify(text, ticket.Expect{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(text.Reveal()[len(ticket.Prefix):])
	if err != nil {
		t.Fatal(err)
	}
	v.Valid = append(v.Valid, vectorValid{name, toVector(got), hex.EncodeToString(raw[:len(raw)-32]), text.Reveal()})
	if back := toVector(got).claims(); back != got {
		t.Errorf("%s: %v", name, back)
	}
}
