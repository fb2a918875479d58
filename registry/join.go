package registry

import (
	"crypto/subtle"

	"github.com/plimsoll-project/plimsoll/pool"
)

// Token lets one host join, once.
type Token struct {
	ID        string // for people, to list and to revoke it
	Digest    Digest
	Host      string // the only one that may use it; empty: any that is new
	By        string // consumer that made it
	CreatedAt pool.Time
	ExpiresAt pool.Time
	UsedAt    pool.Time // zero: not yet
	UsedBy    string    // host
}

// Join is a host's wish to be registered under a token.
type Join struct {
	Token      Digest
	Host       string
	Endpoint   string
	Credential Digest // that it gets
}

// Entry is what becomes of a Join or a Registration.
type Entry string

// The entries.
const (
	Entered     Entry = "entered"
	NoToken     Entry = "no_token"     // nobody made it, or it was revoked
	TokenOver   Entry = "token_over"   // its time is over
	TokenUsed   Entry = "token_used"   // by this host or by another one
	OtherHost   Entry = "other_host"   // it is bound to another one
	KnownHost   Entry = "known_host"   // the host is registered, and the token is not bound to it
	NoHost      Entry = "no_host"      // no host of that name has a credential
	WrongSecret Entry = "wrong_secret" // the credential is not that host's
	IsBuried    Entry = "is_buried"    // the credential was that host's, which is buried
)

// JudgeJoin says what becomes of a join; t is nil for a token that nobody knows, h for a host.
// A token that is bound to a host gives it a new credential, whatever it had: that is how one
// that lost its file, or the answer to its join, comes in.
func JudgeJoin(j *Join, t *Token, h *Host, now pool.Time) Entry {
	switch {
	case t == nil:
		return NoToken
	case t.UsedAt != 0:
		return TokenUsed
	case now >= t.ExpiresAt:
		return TokenOver
	case t.Host != "" && t.Host != j.Host:
		return OtherHost
	case t.Host == "" && h != nil && h.State != Buried:
		return KnownHost
	}
	return Entered
}

// Enter is the host that a join makes, or makes anew, and the token used up. What operators said
// of a host that is not buried stands: nobody slips out of a drain by joining again.
func (j *Join) Enter(t *Token, h *Host, incarnation int64, now pool.Time) Host {
	t.UsedAt, t.UsedBy = now, j.Host
	in := Host{
		ID: j.Host, Incarnation: incarnation, Endpoint: j.Endpoint, State: Active,
		RegisteredAt: now, HeardAt: now, Credential: j.Credential,
	}
	if h != nil && h.State != Buried {
		in.State, in.Bounds, in.Version = h.State, h.Bounds, h.Version
	}
	return in
}

// Registration is a host's own word, under its credential.
type Registration struct {
	Host        string
	Credential  Digest
	Endpoint    string
	Version     string
	Incarnation int64 // that it goes on with; zero: a new life
}

// JudgeRegistration says what becomes of a registration; h is nil for a host that nobody knows.
// Whoever has not the credential does not learn which hosts there are.
func JudgeRegistration(r *Registration, h *Host) Entry {
	switch {
	case h == nil || h.Credential == (Digest{}):
		return NoHost
	case subtle.ConstantTimeCompare(h.Credential[:], r.Credential[:]) != 1:
		return WrongSecret
	case h.State == Buried:
		return IsBuried
	}
	return Entered
}

// Begins says whether a registration begins a new life: one that goes on with a life that is
// not the newest has missed one, and must not be taken for either.
func (r *Registration) Begins(h *Host) bool {
	return r.Incarnation == 0 || r.Incarnation != h.Incarnation
}

// Enter takes the registration over; incarnation is that of a new life, zero when it goes on.
func (r *Registration) Enter(h *Host, incarnation int64, now pool.Time) {
	h.Endpoint, h.Version, h.HeardAt = r.Endpoint, r.Version, now
	if incarnation != 0 {
		h.Incarnation, h.RegisteredAt = incarnation, now
	}
}

// Own is a host whose agent runs in a replica's own process, which needs no credential, at the
// beginning of a life; h is what was known of it, nil for nothing.
func Own(id string, h *Host, incarnation int64, now pool.Time) Host {
	in := Host{ID: id, Incarnation: incarnation, State: Active, RegisteredAt: now, HeardAt: now}
	if h != nil && h.State != Buried {
		in.State, in.Bounds, in.Credential = h.State, h.Bounds, h.Credential
	}
	return in
}
