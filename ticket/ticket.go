// Package ticket mints and verifies the proof of admission that a host, or a substrate,
// demands before it boots anything.
//
// It decides whether a text is a ticket of ours, for this audience, for this admission.
// It does not decide whether the boot may happen: on a host that is the ledger's word, which
// redeems an open reservation once (so Released and Replayed are said there), and the
// reservation is the expiry. Only a substrate without hosts lets a wall clock judge.
//
//	text   = "plm1." base64url(claims ‖ mac)
//	mac    = HMAC-SHA256(key of the audience, claims)
//	key    = HKDF-SHA256(root, salt "plimsoll/v1", info "ticket" 00 audience, 32 bytes)
//	claims = version(1) str(key id) str(audience) str(consumer) str(key) str(pool) str(class)
//	         str(tenant) str(admission id) u64(memory bytes) u64(epoch) u64(issued ms) u64(expires ms)
//	str(s) = one byte of length, then s; u64 is big-endian
//
// Worked: eight strings of 70 bytes in all are 1 + 8 + 70 + 32 = 111 bytes of claims; with the
// MAC 143 bytes; as text 5 + ⌈143 × 4 / 3⌉ = 196 characters. The encoding is canonical: one
// set of claims has one text, so a text that differs in any bit is another ticket, and forged.
//
// A host holds only the keys of its own audience: it can verify, and forge, for itself alone.
//
// Keys, keyrings and claims are values that nothing here writes to after they are made: any
// goroutine may use them. A View is a scratch area: not safe for concurrent use.
package ticket

import (
	"encoding/base64"
	"errors"
	"fmt"
)

// Prefix starts every ticket; the digit is the version of the text.
const Prefix = "plm1."

// Sizes of the two forms at their largest.
const (
	macSize = 32
	MaxRaw  = maxClaims + macSize
	MaxText = len(Prefix) + (MaxRaw*8+5)/6
)

// ErrNoSigningKey is what minting says when every key is verify-only.
var ErrNoSigningKey = errors.New("ticket: no key is in the state signing")

// AppendMint appends to dst the text of a ticket for the claims and returns it. The key's own
// version, id and audience are stamped in; claims that name another audience are refused. It
// allocates nothing when dst has room (MaxText always suffices).
func (k *AudienceKey) AppendMint(dst []byte, c *Claims) ([]byte, error) {
	if err := k.mayMint(c); err != nil {
		return dst, err
	}
	var raw [MaxRaw]byte
	b := c.append(raw[:0], k.id, k.audience)
	b = k.mac.open().Append(b, b)
	dst = append(dst, Prefix...)
	return base64.RawURLEncoding.AppendEncode(dst, b), nil
}

// Mint returns the text of a ticket for the claims.
func (k *AudienceKey) Mint(c *Claims) (Text, error) {
	b, err := k.AppendMint(make([]byte, 0, MaxText), c)
	if err != nil {
		return "", err
	}
	return Text(b), nil
}

// AppendMint mints with the signing key.
func (ks *AudienceKeys) AppendMint(dst []byte, c *Claims) ([]byte, error) {
	k, ok := ks.Signing()
	if !ok {
		return dst, ErrNoSigningKey
	}
	return k.AppendMint(dst, c)
}

// Mint mints with the signing key.
func (ks *AudienceKeys) Mint(c *Claims) (Text, error) {
	k, ok := ks.Signing()
	if !ok {
		return "", ErrNoSigningKey
	}
	return k.Mint(c)
}

func (k *AudienceKey) mayMint(c *Claims) error {
	if k.mac.p == nil || k.state != Signing {
		return ErrNoSigningKey
	}
	if c.Audience != "" && c.Audience != k.audience {
		return fmt.Errorf("ticket: the claims are for audience %q, the key for %q", c.Audience, k.audience)
	}
	if c.Version != 0 && c.Version != Version {
		return fmt.Errorf("ticket: version %d is not one that can be minted", c.Version)
	}
	return c.check()
}
