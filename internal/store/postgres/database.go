package postgres

import (
	"context"
	"fmt"

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

// begin is one round trip; SET LOCAL ends with the transaction, as poolers demand. Every
// statement of the store finds its rows by an index; a planner that knows little of a young
// or busy table reads the whole of it instead, while it holds the pool's lock.
var begin = fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; "+
	"SET LOCAL idle_in_transaction_session_timeout = '%s'; SET LOCAL lock_timeout = '%s'; "+
	"SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off", idleFor, lockFor)

type database struct{ connections *pgxpool.Pool }

func (db *database) Begin(ctx context.Context) (sqlcore.Tx, error) {
	t, err := db.connections.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return nil, err
	}
	return tx{t}, nil
}

func (db *database) Query(ctx context.Context, query string, args ...any) (sqlcore.Rows, error) {
	return db.connections.Query(ctx, query, args...)
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
