package postgres

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
)

// What a halting store does to one transaction in so many, and how long the server waits.
const (
	haltOneIn = 10
	haltFor   = 250 * time.Millisecond // at most
	patience  = "100ms"                // instead of idleFor
)

// halting opens a store whose process stops in the middle of its transactions, as under
// SIGSTOP: before the commit, with its locks held, or after it, before the answer.
func halting(t testing.TB, dsn string, o Options) *Store {
	t.Helper()
	config, err := parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	connections, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context(), connections, o)
	if err != nil {
		t.Fatal(err)
	}
	db := s.db
	db.begin = strings.ReplaceAll(db.begin, "session_timeout = '"+idleFor, "session_timeout = '"+patience)
	d := dialect(clock{o.Clock})
	d.Freed = s.news.freed
	if s.Store, err = sqlcore.New(haltingDB{db}, d); err != nil {
		t.Fatal(err)
	}
	run(t, s)
	return s
}

type haltingDB struct{ *database }

func (db haltingDB) Begin(ctx context.Context) (sqlcore.Tx, error) {
	t, err := db.database.Begin(ctx)
	return haltingTx{t}, err
}

type haltingTx struct{ sqlcore.Tx }

func (t haltingTx) Commit(ctx context.Context) error {
	halt()
	err := t.Tx.Commit(ctx)
	halt()
	return err
}

func halt() {
	if rand.IntN(haltOneIn) == 0 {
		time.Sleep(rand.N(haltFor))
	}
}
