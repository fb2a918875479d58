package control

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
)

// RegisteredHost is a host as the registry has it. What it last said of itself is enough to
// judge, after a restart and before it is heard, whether an ask could ever fit there.
type RegisteredHost struct {
	ID           string
	Incarnation  int64
	Endpoint     string // where replicas dial its agent; empty: it is in a replica's own process
	State        HostState
	Version      string // of its agent
	Bounds       HostBounds
	RegisteredAt pool.Time
	HeardAt      pool.Time // by any replica
	BuriedAt     pool.Time // zero: it is not
	Joined       bool      // it has a credential
}

// HostBounds is what a host can hold at most, by its own word.
type HostBounds struct {
	Mode   gate.Mode
	MaxAsk gate.Bytes // zero: not measured yet
	Labels []gate.Label
	Limits []gate.Dim // of its hard dimensions
}

// JoinToken lets one host join once. Only its SHA-256 is stored.
type JoinToken struct {
	ID        string // for people: to list and to revoke it
	SHA256    [32]byte
	Host      string // the only one that may use it; empty: any that is new
	By        string // consumer that made it
	CreatedAt pool.Time
	ExpiresAt pool.Time
	UsedAt    pool.Time // zero: not yet
	UsedBy    string    // host
}

// Join is a host's wish to be registered under a join token.
type Join struct {
	TokenSHA256      [32]byte
	Host             string
	Endpoint         string
	CredentialSHA256 [32]byte // of the credential that it gets
}

// JoinVerdict is what became of a Join, a Registration or a change of a host's state.
type JoinVerdict string

// The verdicts.
const (
	Joined          JoinVerdict = "joined"
	JoinUnknown     JoinVerdict = "unknown"      // no such token
	JoinExpired     JoinVerdict = "expired"      // its time is over
	JoinUsed        JoinVerdict = "used"         // by this host or another one
	JoinOtherHost   JoinVerdict = "other_host"   // it is bound to another one
	JoinKnownHost   JoinVerdict = "known_host"   // the host is registered, and the token is not bound to it
	JoinNoHost      JoinVerdict = "no_host"      // no host of this name is registered
	JoinWrongSecret JoinVerdict = "wrong_secret" // the credential is not this host's
	JoinBuried      JoinVerdict = "buried"       // the credential was, and the host is buried
)

// Registration is a host's own word under its credential.
type Registration struct {
	Host             string
	CredentialSHA256 [32]byte
	Endpoint         string
	Version          string
	Incarnation      int64 // zero: a new life
}

// HostChange is an operator's deed.
type HostChange struct {
	Host   string
	Deed   pool.HostDeed
	By     string
	Reason string
	Silent time.Duration // a host heard within that is not buried, unless it is drained and empty
}

// HostVerdict is what became of a HostChange.
type HostVerdict string

// The verdicts.
const (
	HostChanged HostVerdict = "changed"
	HostSame    HostVerdict = "same"    // it was so already
	HostUnknown HostVerdict = "unknown" // no such host
	HostIllegal HostVerdict = "illegal" // its state does not lead there
	HostAlive   HostVerdict = "alive"   // it was heard lately, and is not both draining and empty
)
