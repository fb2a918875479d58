package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	lib "modernc.org/sqlite/lib"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
)

const readers = 4 // connections of the read-only pool

// database is the one writing connection, and the reading ones beside it.
type database struct {
	write *sql.DB
	conn  *sql.Conn // of write, its only one
	stmts map[string]*sql.Stmt

	read     *sql.DB
	mu       sync.Mutex // guards prepared
	prepared map[string]*sql.Stmt
}

// connect opens the file. A writer that meets another program's lock waits for it up to 5 s.
func connect(ctx context.Context, path string) (*database, error) {
	if err := keepPrivate(path); err != nil {
		return nil, err
	}
	write, err := sql.Open("sqlite", dsn(path, "mode=rwc", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"))
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	conn, err := write.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read, err := sql.Open("sqlite", dsn(path, "mode=ro", "query_only(1)"))
	if err != nil {
		return nil, errors.Join(err, conn.Close(), write.Close())
	}
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	return &database{write: write, conn: conn, stmts: map[string]*sql.Stmt{}, read: read, prepared: map[string]*sql.Stmt{}}, nil
}

// keepPrivate makes the file before SQLite does, for its owner alone: keys, tenants and
// hashes of tokens are nobody else's. SQLite gives its other files the same mode.
func keepPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: check that the path is a file and that this user may read and write it", err)
	}
	return f.Close()
}

func dsn(path, mode string, pragmas ...string) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		absolute = path
	}
	query := mode + "&_pragma=busy_timeout(5000)"
	for _, p := range pragmas {
		query += "&_pragma=" + url.QueryEscape(p)
	}
	return (&url.URL{Scheme: "file", Path: absolute, RawQuery: query}).String()
}

// Close closes the writer's statements by hand: database/sql does not count those of a
// connection that was taken out of its pool, and SQLite keeps the file open for them.
func (db *database) Close() error {
	errs := []error{db.read.Close()}
	for _, st := range db.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, db.conn.Close(), db.write.Close())...)
}

// Query reads beside the writer.
func (db *database) Query(ctx context.Context, query string, args ...any) (sqlcore.Rows, error) {
	st, err := db.reading(ctx, query)
	if err != nil {
		return nil, err
	}
	r, err := st.QueryContext(ctx, args...)
	return rows{r}, err
}

func (db *database) reading(ctx context.Context, query string) (*sql.Stmt, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if st := db.prepared[query]; st != nil {
		return st, nil
	}
	st, err := db.read.PrepareContext(ctx, query)
	if err == nil {
		db.prepared[query] = st
	}
	return st, err
}

// Begin takes the file's write lock at once, so that what is read stays true.
func (db *database) Begin(context.Context) (sqlcore.Tx, error) {
	if _, err := db.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	return tx{db}, nil
}

// statement prepares each statement once: parsing costs more than running it. The writer
// never hangs, so it is never interrupted: its contexts go no further than here.
func (db *database) statement(query string) (*sql.Stmt, error) {
	if st := db.stmts[query]; st != nil {
		return st, nil
	}
	st, err := db.conn.PrepareContext(context.Background(), query)
	if err == nil {
		db.stmts[query] = st
	}
	return st, err
}

func (db *database) exec(query string, args ...any) (int64, error) {
	st, err := db.statement(query)
	if err != nil {
		return 0, err
	}
	result, err := st.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// tx is the transaction that the writing connection is in.
type tx struct{ db *database }

func (t tx) Query(_ context.Context, query string, args ...any) (sqlcore.Rows, error) {
	st, err := t.db.statement(query)
	if err != nil {
		return nil, err
	}
	r, err := st.QueryContext(context.Background(), args...)
	return rows{r}, err
}

func (t tx) Exec(_ context.Context, query string, args ...any) (int64, error) {
	return t.db.exec(query, args...)
}

func (t tx) Commit(context.Context) error {
	_, err := t.db.exec("COMMIT")
	return err
}

// Rollback forgives that SQLite has rolled back already, as it does when the disk is full.
func (t tx) Rollback(context.Context) error {
	_, err := t.db.exec("ROLLBACK")
	if code(err) == lib.SQLITE_ERROR && strings.Contains(err.Error(), "no transaction is active") {
		return nil
	}
	return err
}

type rows struct{ *sql.Rows }

// Close has nothing to say that Err has not.
func (r rows) Close() { _ = r.Rows.Close() }
