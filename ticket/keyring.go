package ticket

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
)

// State is what a root is good for. A rotation takes three steps, each given time to reach
// every holder, so that no boot is refused: add the new root verify-only everywhere, let it
// sign (the old one becomes verify-only), drop the old one when its last ticket has ended.
type State uint8

const (
	// VerifyOnly accepts tickets and mints none.
	VerifyOnly State = iota
	// Signing accepts and mints. At most one root is in it.
	Signing
)

// String returns the word of the keys file.
func (s State) String() string {
	if s == Signing {
		return "signing"
	}
	return "verify-only"
}

// Bounds of a keyring.
const (
	MinSecret = 32
	MaxSecret = 128
	MaxRoots  = 16
)

// The salt and the first word of the info keep every use of a root apart from every other.
const (
	hkdfSalt       = "plimsoll/v1"
	ticketPurpose  = "ticket"
	derivedPurpose = "derived"
)

// Root is a secret from which the keys of every audience are derived. It lives outside the store.
type Root struct {
	id     string
	state  State
	since  time.Time // zero: not known
	secret sealed[[]byte]
}

// NewRoot makes a root of a copy of the secret.
func NewRoot(id string, state State, secret []byte) (Root, error) {
	if err := checkKeyID(id); err != nil {
		return Root{}, err
	}
	if err := checkSecret(secret); err != nil {
		return Root{}, fmt.Errorf("ticket: root %q: %w", id, err)
	}
	return Root{id: id, state: state, secret: seal(bytes.Clone(secret))}, nil
}

// ID returns the root's name.
func (r Root) ID() string { return r.id }

// State returns what the root is good for.
func (r Root) State() State { return r.state }

// Since returns when it came into its state, zero when that is not known. One that signed
// before has it only once nobody signs with it any more: see Retire.
func (r Root) Since() time.Time { return r.since }

func checkSecret(secret []byte) error {
	switch {
	case len(secret) < MinSecret || len(secret) > MaxSecret:
		return fmt.Errorf("its secret is %d bytes, not %d to %d", len(secret), MinSecret, MaxSecret)
	case bytes.Count(secret, secret[:1]) == len(secret):
		return fmt.Errorf("its secret is one byte repeated")
	}
	return nil
}

func checkKeyID(id string) error {
	if id == "" || len(id) > MaxKeyID {
		return fmt.Errorf("ticket: a key id is 1 to %d characters, not %d", MaxKeyID, len(id))
	}
	for _, c := range []byte(id) {
		if !wordByte(c) {
			return fmt.Errorf("ticket: key id %q has a character other than A-Z a-z 0-9 . _ -", id)
		}
	}
	return nil
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// Keyring is a set of roots by id in the order of their age, at most one of them signing. Its
// methods return changed copies.
type Keyring struct{ roots []Root }

// NewKeyring makes a keyring of roots.
func NewKeyring(roots ...Root) (Keyring, error) {
	k := Keyring{roots: slices.Clone(roots)}
	return k, k.check()
}

func (k Keyring) check() error {
	if len(k.roots) == 0 || len(k.roots) > MaxRoots {
		return fmt.Errorf("ticket: a keyring has 1 to %d roots, not %d", MaxRoots, len(k.roots))
	}
	signing := ""
	for i, r := range k.roots {
		switch {
		case r.secret.p == nil:
			return fmt.Errorf("ticket: root %d has no secret", i+1)
		case k.index(r.id) != i:
			return fmt.Errorf("ticket: two roots are named %q", r.id)
		case r.state == Signing && signing != "":
			return fmt.Errorf("ticket: roots %q and %q are both signing; at most one may be", signing, r.id)
		case r.state == Signing:
			signing = r.id
		}
	}
	return nil
}

// Roots returns the roots in order.
func (k Keyring) Roots() []Root { return slices.Clone(k.roots) }

func (k Keyring) index(id string) int {
	return slices.IndexFunc(k.roots, func(r Root) bool { return r.id == id })
}

// Add returns the keyring with one more root: a rotation's first step when it is verify-only.
func (k Keyring) Add(r Root, now time.Time) (Keyring, error) {
	r.since = now
	return NewKeyring(append(k.Roots(), r)...)
}

// Sign returns the keyring with the named root signing and every other one verify-only: the
// second step. Holders that have not heard of it sign with the former one for a while yet.
func (k Keyring) Sign(id string, now time.Time) (Keyring, error) {
	if k.index(id) < 0 {
		return Keyring{}, fmt.Errorf("ticket: no root is named %q", id)
	}
	roots := k.Roots()
	for i := range roots {
		switch {
		case roots[i].id == id:
			roots[i].state, roots[i].since = Signing, now
		case roots[i].state == Signing:
			roots[i].state, roots[i].since = VerifyOnly, time.Time{}
		}
	}
	return NewKeyring(roots...)
}

// Retire notes since when nobody signs with the named root any more; zero takes that back.
func (k Keyring) Retire(id string, since time.Time) (Keyring, error) {
	i := k.index(id)
	switch {
	case i < 0:
		return Keyring{}, fmt.Errorf("ticket: no root is named %q", id)
	case k.roots[i].state == Signing:
		return Keyring{}, fmt.Errorf("ticket: root %q is signing; let another sign first", id)
	}
	roots := k.Roots()
	roots[i].since = since
	return NewKeyring(roots...)
}

// Drop returns the keyring without the named root, which may not be signing: the third step.
func (k Keyring) Drop(id string) (Keyring, error) {
	i := k.index(id)
	switch {
	case i < 0:
		return Keyring{}, fmt.Errorf("ticket: no root is named %q", id)
	case k.roots[i].state == Signing:
		return Keyring{}, fmt.Errorf("ticket: root %q is signing; let another sign first", id)
	}
	return NewKeyring(slices.Delete(k.Roots(), i, i+1)...)
}

// Audience derives the keys of one audience: all that its host is ever given. It takes a
// few microseconds a root; keep the answer.
func (k Keyring) Audience(name string) (AudienceKeys, error) {
	if name == "" || len(name) > MaxName {
		return AudienceKeys{}, fmt.Errorf("ticket: an audience is 1 to %d bytes, not %d", MaxName, len(name))
	}
	ks := AudienceKeys{audience: name}
	for _, r := range k.roots {
		secret, err := r.derive(ticketPurpose, name)
		if err != nil {
			return AudienceKeys{}, err
		}
		ks.keys = append(ks.keys, newAudienceKey(r.id, name, r.state, secret))
	}
	return ks, nil
}

// Derived is a key for another purpose than tickets, such as receipts.
type Derived struct {
	ID    string // the root's
	State State
	MAC   *MAC
}

// Derive derives a key of each root for a named purpose, the signing one first.
func (k Keyring) Derive(purpose string) ([]Derived, error) {
	var out []Derived
	for _, r := range k.roots {
		secret, err := r.derive(derivedPurpose, purpose)
		if err != nil {
			return nil, err
		}
		out = append(out, Derived{ID: r.id, State: r.state, MAC: NewMAC(secret)})
	}
	slices.SortStableFunc(out, func(a, b Derived) int { return int(b.State) - int(a.State) })
	return out, nil
}

func (r Root) derive(purpose, name string) (*[32]byte, error) {
	b, err := hkdf.Key(sha256.New, *r.secret.open(), []byte(hkdfSalt), purpose+"\x00"+name, 32)
	if err != nil {
		return nil, fmt.Errorf("ticket: derive a key of root %q: %w", r.id, err)
	}
	return (*[32]byte)(b), nil
}

// AudienceKey is one root's key for one audience.
type AudienceKey struct {
	id       string
	audience string
	state    State
	secret   sealed[[32]byte]
	mac      sealed[MAC]
}

func newAudienceKey(id, audience string, state State, secret *[32]byte) AudienceKey {
	return AudienceKey{id: id, audience: audience, state: state, secret: seal(*secret), mac: seal(*NewMAC(secret))}
}

// ID returns the id of the key's root.
func (k *AudienceKey) ID() string { return k.id }

// Audience returns whom the key is for.
func (k *AudienceKey) Audience() string { return k.audience }

// AudienceKeys are the keys of one audience, one a root.
type AudienceKeys struct {
	audience string
	keys     []AudienceKey
}

// Audience returns whom the keys are for.
func (ks *AudienceKeys) Audience() string { return ks.audience }

// Signing returns the key that mints, if one does.
func (ks *AudienceKeys) Signing() (*AudienceKey, bool) {
	for i := range ks.keys {
		if ks.keys[i].state == Signing {
			return &ks.keys[i], true
		}
	}
	return nil, false
}

func (ks *AudienceKeys) byID(id []byte) *AudienceKey {
	for i := range ks.keys {
		if ks.keys[i].id == string(id) {
			return &ks.keys[i]
		}
	}
	return nil
}
