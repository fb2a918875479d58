// Package control is the replica's shell: it runs the pure passages against a store, the
// table of hosts and their agents, and answers callers. It decides nothing that a pure
// package decides.
package control

import (
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
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
	Leave(ctx context.Context, id string) (pool.Row, bool, error)
	End(ctx context.Context, id string, epoch int64, to pool.State, reason string) (written, again bool, err error)
	Sweep(ctx context.Context) ([]pool.Row, error)

	Get(ctx context.Context, consumer, key string) (pool.Row, bool, error)
	ByID(ctx context.Context, id string) (pool.Row, bool, error)
	List(ctx context.Context, f Filter) ([]pool.Row, error)
	Lines(ctx context.Context) ([]pool.Line, error)

	// Register gives a host a new incarnation from the sequence.
	Register(ctx context.Context, host string) (int64, error)
	// Config returns the document in force; generation 0 when there is none yet.
	Config(ctx context.Context) (Config, error)
	// Apply puts a document in force, only if the generation in force is c.Generation; the
	// new generation is one higher. ok is false when somebody was faster.
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
	States   []pool.State
	Limit    int // 0: all
}

// Config is the fleet's document as the store keeps it, each generation for good.
type Config struct {
	Generation int64
	Document   string // YAML
	By         string // consumer that applied it
	AppliedAt  pool.Time
}
