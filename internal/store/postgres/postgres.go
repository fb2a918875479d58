// Package postgres keeps the control plane's state in PostgreSQL, for any number of replicas.
//
// Each replica runs one writer; transitions that wait at the same time share a transaction
// (package sqlcore). Exactness between replicas comes from row locks under READ COMMITTED:
//
//	lock order: pools by name → tenants by name
//
// The settings, the counts and the admissions are read after the locks are held. Reads must
// go to the primary too: a copy that lags decides wrongly.
//
// It keeps to what a transaction pooler and databases that speak PostgreSQL's language take:
// no advisory lock and no LOCK TABLE (a row is the lock, of migrations too), no setting but
// SET LOCAL, and that only where the server knows it, no prepared statement that outlives its
// call, no temporary table, no trigger or function of our own, no NOTIFY in a transaction.
// LISTEN has a connection to itself; where it is refused or unheard, waiters look by
// themselves (news.go). A replica that stops in the middle of a transaction is cut off by the
// server after idleFor.
//
// The clock is the server's, but it never goes back: no transaction is dated before the last
// change of its pools (pools.touched_at) or before the last pulse. When the server's was set
// back, the next pulse notes by how much; the store's clock then goes on from
// where it stood and loses a tenth until the server's has caught up, so that nothing is over
// for the leap, and nothing stands still for it (clock.go). Two servers' clocks may differ in
// the same way when one takes over from the other.
package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Options are what Open may be told. The zero value is right for production.
type Options struct {
	Clock func() pool.Time // replaces the server's clock, in tests; nil: the server's
	Log   *slog.Logger     // is told when replicas cannot wake each other; nil: nobody is
}

// Store is a control.Store in a PostgreSQL database.
type Store struct {
	*sqlcore.Store
	db   *database
	news *news
}

var _ control.Store = (*Store)(nil)

// Open connects to the database, whose schema must be one that this program can work on: it
// changes none by itself. It starts nothing: transitions wait until Run is called.
//
// Statements are not kept prepared in the session, because a transaction pooler would hand
// them to others. Whoever connects directly may add default_query_exec_mode=cache_statement
// to the connection string, which is faster.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	connections, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, explain(err)
	}
	s, err := open(ctx, connections, o)
	if err != nil {
		connections.Close()
		return nil, explain(err)
	}
	return s, nil
}

// Check says whether a connection string is understood, without connecting.
func Check(dsn string) error {
	_, err := parse(dsn)
	return err
}

// How long one of the named servers may take to be connected to before the next is tried, and
// a connection that was idle to prove that it works, where the connection string says nothing.
const (
	connectFor = 5 * time.Second
	pingFor    = 2 * time.Second
)

func parse(dsn string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("store: the connection string is not understood: %w", err)
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectFor)
	config.PingTimeout = cmp.Or(config.PingTimeout, pingFor)
	if !strings.Contains(dsn, "default_query_exec_mode=") {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return config, nil
}

func open(ctx context.Context, connections *pgxpool.Pool, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	db, err := connect(ctx, connections, o.Log)
	if err != nil {
		return nil, err
	}
	schema, err := readSchema(ctx, db)
	if err == nil {
		err = ready(schema)
	}
	if err != nil {
		return nil, err
	}
	n := newNews(connections, o.Log)
	d := dialect(clock{o.Clock})
	d.Freed = n.freed
	core, err := sqlcore.New(db, d)
	if err != nil {
		return nil, err
	}
	return &Store{core, db, n}, nil
}

// Run is the writer, and hears and tells what replicas tell each other.
func (s *Store) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { s.news.listen(ctx) })
	beside.Go(func() { s.news.tell(ctx) })
	defer beside.Wait()
	defer cancel()
	return s.Store.Run(ctx)
}

// Freed tells that another replica freed a slot or changed a limit.
func (s *Store) Freed() <-chan struct{} { return s.news.heard }
