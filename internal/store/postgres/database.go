package postgres

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
)

// Bounds that the server holds a transaction to, so that a replica that was stopped in the
// middle of one keeps its pools' locks no longer.
const (
	idleFor = "10s"
	lockFor = "10s"
)

// settings are a transaction's. Every statement of the store finds its rows by an index; a
// planner that knows little of a young or busy table reads the whole of it instead, while it
// holds the pool's lock.
var settings = []string{
	"idle_in_transaction_session_timeout = '" + idleFor + "'",
	"lock_timeout = '" + lockFor + "'",
	"enable_seqscan = off", "enable_hashjoin = off", "enable_mergejoin = off", "jit = off",
}

// readFor is how long a question may take. A server that is gone without a word, as one whose
// machine lost power, leaves connections on which nobody ever answers.
const readFor = 15 * time.Second

type database struct {
	connections *pgxpool.Pool
	readFor     time.Duration
	begin       string // one round trip; SET LOCAL ends with the transaction, as poolers demand
}

// connect finds out which of the settings the server knows: none is needed to be right.
func connect(ctx context.Context, connections *pgxpool.Pool, log *slog.Logger) (*database, error) {
	db := &database{connections, readFor, "BEGIN ISOLATION LEVEL READ COMMITTED"}
	for _, setting := range settings {
		t, err := connections.Begin(ctx)
		if err != nil {
			return nil, err
		}
		_, setErr := t.Exec(ctx, "SET LOCAL "+setting)
		if err := t.Rollback(ctx); err != nil {
			return nil, errors.Join(setErr, err)
		}
		switch {
		case setErr == nil:
			db.begin += "; SET LOCAL " + setting
		case unknown(setErr):
			log.Info("the server does not know a setting and goes without it", "setting", setting, "err", setErr)
		default:
			return nil, setErr
		}
	}
	return db, nil
}

func (db *database) Begin(ctx context.Context) (sqlcore.Tx, error) {
	t, err := db.connections.BeginTx(ctx, pgx.TxOptions{BeginQuery: db.begin})
	if err != nil {
		return nil, err
	}
	return tx{t}, nil
}

func (db *database) Query(ctx context.Context, query string, args ...any) (sqlcore.Rows, error) {
	ctx, cancel := context.WithTimeout(ctx, db.readFor)
	rows, err := db.connections.Query(ctx, query, args...)
	if err != nil {
		cancel()
		return nil, err
	}
	return answer{rows, cancel}, nil
}

// answer is what a question within readFor brought.
type answer struct {
	pgx.Rows
	over context.CancelFunc
}

func (a answer) Close() {
	a.Rows.Close()
	a.over()
}

func (db *database) Close() error {
	db.connections.Close()
	return nil
}

type tx struct{ pgx.Tx }

func (t tx) Query(ctx context.Context, query string, args ...any) (sqlcore.Rows, error) {
	return t.Tx.Query(ctx, query, args...)
}

func (t tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := t.Tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}
