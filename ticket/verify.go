package ticket

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Skew is how far two wall clocks may differ where one judges Expires.
const Skew = 30 * time.Second

// Expect is what the verifier knows of the boot at hand. The audience is that of the keys.
// An empty field is not asked for; a ledger that looks the admission up by the ticket's own
// id leaves all of them empty and compares afterwards.
type Expect struct {
	Audience    string // when set: must also be the keys' own
	Consumer    string
	Key         string
	AdmissionID string
	Pool        string
	Class       string
	Epoch       int64     // zero: not asked for
	Now         time.Time // zero: no wall clock judges (on hosts the reservation is the expiry)
}

// View is a verified ticket, its names still lying in the View's own memory: valid until
// the View is used again. Not safe for concurrent use.
type View struct {
	KeyID, Audience, Consumer, Key, Pool, Class, Tenant, AdmissionID []byte

	Memory          gate.Bytes
	Epoch           int64
	Issued, Expires int64 // Unix milliseconds

	text [MaxText]byte
	raw  [MaxRaw]byte
}

var strict = base64.RawURLEncoding.Strict()

// Verify judges a ticket's text. On OK it returns the claims.
func (ks *AudienceKeys) Verify(text Text, e Expect) (Claims, error) {
	var v View
	if r := ks.VerifyView(&v, text, &e); r != OK {
		return Claims{}, r
	}
	return v.Claims(), nil
}

// VerifyView judges a ticket's text and leaves its claims in v. It allocates nothing. On any
// other answer than OK the View is empty.
func (ks *AudienceKeys) VerifyView(v *View, text Text, e *Expect) Reason {
	r := ks.judge(v, text, e)
	if r != OK {
		v.clear()
	}
	return r
}

// judge goes from the text to the MAC to the claims. The audience is compared before the
// MAC, because the key of another audience is not held here: it can only refuse.
func (ks *AudienceKeys) judge(v *View, text Text, e *Expect) Reason {
	if text == "" {
		return Missing
	}
	claims, mac, ok := v.decode(string(text))
	if !ok {
		return Malformed
	}
	if !ks.isFor(v.Audience, e.Audience) {
		return OtherHost
	}
	k := ks.byID(v.KeyID)
	if k == nil || !k.mac.open().Matches(claims, mac) {
		return Forged
	}
	return v.compare(e)
}

func (ks *AudienceKeys) isFor(audience []byte, expected string) bool {
	return string(audience) == ks.audience && (expected == "" || expected == ks.audience)
}

func (v *View) compare(e *Expect) Reason {
	switch {
	case differs(v.Consumer, e.Consumer), differs(v.Key, e.Key), differs(v.AdmissionID, e.AdmissionID),
		differs(v.Pool, e.Pool), differs(v.Class, e.Class):
		return OtherKey
	case e.Epoch != 0 && v.Epoch != e.Epoch:
		return Superseded
	case !e.Now.IsZero() && e.Now.UnixMilli() >= v.Expires+Skew.Milliseconds():
		return Expired
	}
	return OK
}

func differs(claim []byte, expected string) bool {
	return expected != "" && string(claim) != expected
}

// decode splits the text into claims and MAC and points the View's names into them.
func (v *View) decode(text string) (claims, mac []byte, ok bool) {
	body, found := strings.CutPrefix(text, Prefix)
	if !found || len(text) > MaxText {
		return nil, nil, false
	}
	src := v.text[:copy(v.text[:], body)]
	// encoding/base64 skips line ends; a second text for the same ticket is none of ours.
	if bytes.IndexByte(src, '\n') >= 0 || bytes.IndexByte(src, '\r') >= 0 {
		return nil, nil, false
	}
	n, err := strict.Decode(v.raw[:], src)
	if err != nil || n < macSize {
		return nil, nil, false
	}
	claims, mac = v.raw[:n-macSize], v.raw[n-macSize:n]
	return claims, mac, v.parse(claims)
}

// parse reads the claims. It accepts exactly what append writes.
func (v *View) parse(b []byte) bool {
	if len(b) == 0 || b[0] != Version {
		return false
	}
	b, ok := b[1:], true
	for _, f := range [...]*[]byte{&v.KeyID, &v.Audience, &v.Consumer, &v.Key, &v.Pool, &v.Class, &v.Tenant, &v.AdmissionID} {
		if *f, b, ok = cutString(b); !ok {
			return false
		}
	}
	if len(b) != 8*numbers || len(v.KeyID) > MaxKeyID || len(v.AdmissionID) == 0 {
		return false
	}
	v.Memory = gate.Bytes(binary.BigEndian.Uint64(b))
	v.Epoch = int64(binary.BigEndian.Uint64(b[8:]))
	v.Issued = int64(binary.BigEndian.Uint64(b[16:]))
	v.Expires = int64(binary.BigEndian.Uint64(b[24:]))
	return v.Memory >= 0 && v.Epoch >= 0 && validTimes(v.Issued, v.Expires)
}

func cutString(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) > MaxName || int(b[0]) > len(b)-1 {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n:n], b[n:], true
}

// clear empties what was read, so that nobody acts on the claims of a refused ticket.
func (v *View) clear() {
	v.KeyID, v.Audience, v.Consumer, v.Key = nil, nil, nil, nil
	v.Pool, v.Class, v.Tenant, v.AdmissionID = nil, nil, nil, nil
	v.Memory, v.Epoch, v.Issued, v.Expires = 0, 0, 0, 0
}

// Claims copies the View's claims out.
func (v *View) Claims() Claims {
	return Claims{
		Version: Version, KeyID: string(v.KeyID), Audience: string(v.Audience),
		Consumer: string(v.Consumer), Key: string(v.Key), Pool: string(v.Pool), Class: string(v.Class),
		Tenant: string(v.Tenant), AdmissionID: string(v.AdmissionID), Memory: v.Memory, Epoch: v.Epoch,
		Issued: time.UnixMilli(v.Issued).UTC(), Expires: time.UnixMilli(v.Expires).UTC(),
	}
}
