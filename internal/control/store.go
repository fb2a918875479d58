// Package control is the replica's shell: it runs the pure passages against a store, the
// table of hosts and their agents, and answers callers. It decides nothing that a pure
// package decides.
package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/hindsight"
	"github.com/plimsoll-project/plimsoll/internal/learned"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
	"github.com/plimsoll-project/plimsoll/table"
)

// Store is what the replica needs of its database: whole transitions, each atomic, each
// dated by the store's own clock and ordered by its own sequence. They equal those of
// pool.Model step by step. An error means that the outcome is unknown: the transition may
// have been persisted or not.
type Store interface {
	Claim(ctx context.Context, c pool.Claim) (pool.Claimed, error)
	Regen(ctx context.Context, id string, gen int64) (int64, error)
	Settle(ctx context.Context, id string, gen int64, host string, reservedFor time.Duration) (pool.Row, bool, error)
	NoRoom(ctx context.Context, id string, gen int64, hostless bool, present time.Duration) (pool.Claimed, error)
	Attend(ctx context.Context, id string, present time.Duration) (bool, error)
	Move(ctx context.Context, id string, epoch int64, acknowledged bool) (pool.Row, bool, error)
	Renew(ctx context.Context, id string, epoch int64, reservedFor time.Duration) (pool.Row, bool, error)
	Track(ctx context.Context, id string, epoch int64) (bool, error)
	Leave(ctx context.Context, id string, of pool.Passage) (pool.Row, bool, error)
	End(ctx context.Context, id string, epoch int64, to pool.State, reason string) (written, again bool, err error)
	// Hear takes a caller's heartbeat for a slot without a host.
	Hear(ctx context.Context, id string, epoch int64) (pool.Row, bool, error)
	Redeem(ctx context.Context, d pool.Redemption) (pool.RedeemVerdict, pool.Row, error)
	// Seen says which of what somebody lists as running has a slot without a host.
	Seen(ctx context.Context, running []pool.Ref) ([]bool, error)
	Stand(ctx context.Context, id, at string) (bool, error)
	Reopen(ctx context.Context, id string, epoch int64, reservedFor time.Duration) (bool, error)
	Return(ctx context.Context, id string, epoch int64, host string) (bool, error)
	// Override and Resume are audited in the same transaction, under o.By and o.Reason.
	Override(ctx context.Context, name string, o pool.Override, lasts time.Duration) (pool.OverrideVerdict, pool.Limits, error)
	Resume(ctx context.Context, name, by, reason string) (pool.OverrideVerdict, pool.Limits, error)
	// Shadow and Enforce likewise: what operators take out of force, and back.
	Shadow(ctx context.Context, t pool.Target, by, reason string) (pool.OrderVerdict, error)
	Enforce(ctx context.Context, t pool.Target, by, reason string) (pool.OrderVerdict, error)
	// Orders returns those that stand.
	Orders(ctx context.Context) (pool.Orders, error)
	// Note writes into the audit what somebody did past every replica; of one origin once.
	Note(ctx context.Context, d Deed) error
	// Compare takes what another scheduler decided, and what came of it: one answer for each.
	Compare(ctx context.Context, o table.Options, told []hindsight.Told) ([]hindsight.Answer, error)
	// Compared returns what came of all of it, told to whichever replica.
	Compared(ctx context.Context) (hindsight.Tally, error)
	// ForgetCompared begins the comparison anew. Audited.
	ForgetCompared(ctx context.Context, by string) error
	// Learn takes what hosts saw of runs, whoever was told, and every template that is due to now.
	Learn(ctx context.Context, rules learned.Rules, told []learned.Word) error
	// Learned returns what is known of each template, by class and template.
	Learned(ctx context.Context) ([]learned.Known, error)
	// Sweep writes the pulse first.
	Sweep(ctx context.Context) ([]pool.Row, error)
	// Pulse writes that this replica hears, and renews the leases of the hosts that it heard.
	Pulse(ctx context.Context, heard []string) (pool.Pulse, error)

	// Decide keeps decisions for a day, each by its id once, and at most so many in all; early is how
	// many were forgotten for that before their day was over, the oldest first.
	Decide(ctx context.Context, decisions []*Decision, most int64) (early int64, err error)
	// Decision returns one that is kept; ok is false when none of that id is.
	Decision(ctx context.Context, id string) (d *Decision, ok bool, err error)
	// Decisions returns what a consumer's key was told, or anybody's for "", the newest first.
	Decisions(ctx context.Context, consumer, key string, limit int) ([]*Decision, error)

	Get(ctx context.Context, consumer, key string) (pool.Row, bool, error)
	ByID(ctx context.Context, id string) (pool.Row, bool, error)
	List(ctx context.Context, f Filter) ([]pool.Row, error)
	Lines(ctx context.Context) ([]pool.Line, error)
	// Holdings sums up what the store has on each host that it has anything on.
	Holdings(ctx context.Context) (map[string]pool.Holding, error)

	// Register gives a host whose agent runs in this very process a new incarnation.
	Register(ctx context.Context, host string) (int64, error)
	// IssueJoin keeps a join token that lasts for a while from now. Audited under t.By.
	IssueJoin(ctx context.Context, t registry.Token, lasts time.Duration) (registry.Token, error)
	// RevokeJoin makes an unused token void; ok is false when there is none of that id. Audited.
	RevokeJoin(ctx context.Context, id, by string) (t registry.Token, ok bool, err error)
	// JoinTokens returns those that neither were used nor ended a day ago, newest first.
	JoinTokens(ctx context.Context) ([]registry.Token, error)
	// Join registers a host under a token, which is used up. Audited.
	Join(ctx context.Context, j registry.Join) (registry.Entry, error)
	// RegisterHost takes a host's own word, under its credential. A move is audited.
	RegisterHost(ctx context.Context, r registry.Registration) (registry.Host, registry.Entry, error)
	// SetHostState carries out an operator's deed if it is legal, and returns the host as it
	// was. Audited. What a buried host holds in the store is over with the next Sweep.
	SetHostState(ctx context.Context, c registry.Change) (was registry.Host, v registry.Verdict, err error)
	// HostsVersion rises with every change of what Hosts returns, but for HeardAt.
	HostsVersion(ctx context.Context) (int64, error)
	// Describe keeps what hosts said of themselves.
	Describe(ctx context.Context, said []HostBounds) error
	// Config returns the document in force; generation 0 when there is none yet.
	Config(ctx context.Context) (Config, error)
	// ConfigAt returns a former document; ok is false when that generation never was.
	ConfigAt(ctx context.Context, generation int64) (c Config, ok bool, err error)
	// Configs returns the newest generations first, without their documents.
	Configs(ctx context.Context, limit int) ([]Config, error)
	// Audit returns what operators did, the newest first.
	Audit(ctx context.Context, limit int) ([]Deed, error)
	// FreedTotals counts by pool the slots that admissions gave back, ever.
	FreedTotals(ctx context.Context) (map[string]int64, error)
	// Attest writes that a replica is up, dated by the store's clock.
	Attest(ctx context.Context, r Replica) error
	// Replicas returns those that attested within the last hour, by id.
	Replicas(ctx context.Context) ([]Replica, error)
	// Hosts returns the registered hosts, the buried ones too, by id.
	Hosts(ctx context.Context) ([]RegisteredHost, error)
	// Host returns one of them; ok is false when it is not registered.
	Host(ctx context.Context, id string) (h RegisteredHost, ok bool, err error)
	// Freed tells, now and then, that another replica freed a slot or changed a limit. It is
	// a hint: what it does not tell is found by looking. Nil when there is nobody to tell.
	Freed() <-chan struct{}
	// Apply puts a document in force, only if the generation in force is c.Generation; the
	// new generation is one higher. ok is false when somebody was faster. ErrOverCeiling is
	// returned when the caps, with what operators set for a while, would pass the ceiling.
	Apply(ctx context.Context, c Config, s pool.Settings) (generation int64, ok bool, err error)
	// Ping proves that the store can be written.
	Ping(ctx context.Context) error
	Now(ctx context.Context) (pool.Time, error)
	Close() error
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	Consumer string
	Host     string
	Class    string
	Pool     string
	States   []pool.State
	After    string // only those whose id comes after this one
	Limit    int    // 0: all
}

// Config is the fleet's document as the store keeps it, each generation for good.
type Config struct {
	Generation int64
	Document   string // YAML
	By         string // consumer that applied it
	AppliedAt  pool.Time
}

// ErrOverCeiling says that a document's caps do not go with what an operator set for a while.
var ErrOverCeiling = errors.New("with the caps that operators set for a while, the sum would pass the ceiling")

// Deed is one thing that an operator did.
type Deed struct {
	At     pool.Time
	By     string // consumer
	What   string // in the words of the command line, as in "pool set browser --cap 4 --for 2h0m0s"
	Reason string
	Origin string // names what was done past every replica, and may be told more than once; else empty
}

// OverrideDeed says what Override did.
func OverrideDeed(name string, most int64, lasts time.Duration) string {
	what := "hold " + name
	if most > 0 {
		what = fmt.Sprintf("set %s --cap %d", name, most)
	}
	if lasts > 0 {
		what += " --for " + lasts.String()
	}
	return "pool " + what
}

// ResumeDeed says what Resume did.
func ResumeDeed(name string) string { return "pool resume " + name }

// ShadowDeed says what Shadow did.
func ShadowDeed(t pool.Target) string { return "mode shadow " + flagOf(t) }

// EnforceDeed says what Enforce did.
func EnforceDeed(t pool.Target) string { return "mode enforce " + flagOf(t) }

// flagOf names a target in the words of the command line.
func flagOf(t pool.Target) string {
	if t.Name == "" {
		return "--" + string(t.Scope)
	}
	return "--" + string(t.Scope) + " " + t.Name
}

// ForgetComparedDeed says what ForgetCompared did.
const ForgetComparedDeed = "shadow reset"

// ApplyDeed says what Apply did.
func ApplyDeed(generation int64) string {
	return fmt.Sprintf("config apply, generation %d", generation)
}

// Replica is one control-plane process, by its own word.
type Replica struct {
	ID      string
	Address string // of its API
	Version string
	Keys    string // ids of the ticket keys that it knows, the signing one first, joined by commas
	HeardAt pool.Time
}
