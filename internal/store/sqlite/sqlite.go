// Package sqlite keeps the control plane's state in one file, for a fleet with one replica.
//
// One connection writes, with synchronous=FULL and a write-ahead log; transitions that wait
// at the same time share a commit (package sqlcore). Reads go beside it. A lock file keeps
// a second process out of the same database.
package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Options are what Open may be told. The zero value is right for production.
type Options struct {
	Clock func() pool.Time // replaces the store's clock; nil: the machine's, made monotonic
}

// Store is a control.Store in one file.
type Store struct {
	*sqlcore.Store
	db   *database
	lock *lockFile
}

var _ control.Store = (*Store)(nil)

//go:embed migrations/*.sql
var migrations embed.FS

// Open makes or opens the database at path, checks that the file is sound, and brings its
// schema up to date, unless a newer program did so and lets this one run. It starts nothing: transitions wait until Run is called.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return open(ctx, path, o, dir)
}

// open is Open for a program that knows the migrations of dir.
func open(ctx context.Context, path string, o Options, dir fs.FS) (*Store, error) {
	lock, err := lockDatabase(path)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock}
	if err := s.open(ctx, path, o, dir); err != nil {
		return nil, errors.Join(explain(path)(err), lock.release())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string, o Options, dir fs.FS) (err error) {
	if s.db, err = connect(ctx, path); err != nil {
		return err
	}
	if s.Store, err = prepare(ctx, s.db, path, o, dir); err != nil {
		return errors.Join(err, s.db.Close())
	}
	return nil
}

func prepare(ctx context.Context, db *database, path string, o Options, dir fs.FS) (*sqlcore.Store, error) {
	if err := db.check(ctx); err != nil {
		return nil, err
	}
	if err := db.migrate(ctx, dir); err != nil {
		return nil, err
	}
	c := newClock(o.Clock)
	core, err := sqlcore.New(db, dialect(path, c))
	if err != nil {
		return nil, err
	}
	newest, err := core.Newest(ctx)
	c.notBefore(pool.Time(newest))
	return core, err
}

// Close stops the writer, answers every transition that waits, and lets the file go.
func (s *Store) Close() error { return errors.Join(s.Store.Close(), s.lock.release()) }

// check reads the whole file once: a damaged database is found before it is written, not after.
func (db *database) check(ctx context.Context) error {
	var answer string
	if err := db.conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&answer); err != nil {
		return err
	}
	if answer != "ok" {
		return fmt.Errorf("%w: %s", errCorrupt, answer)
	}
	return nil
}

// migrate brings the schema up to date, all or nothing: nobody else uses the file.
func (db *database) migrate(ctx context.Context, dir fs.FS) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	script := func(ctx context.Context, text string) error {
		_, err := db.conn.ExecContext(ctx, text)
		return err
	}
	err = script(ctx, "CREATE TABLE IF NOT EXISTS schema_version (version integer PRIMARY KEY)")
	for more := true; err == nil && more; {
		more, err = sqlcore.MigrateStep(ctx, tx, dir, script)
	}
	if err == nil {
		return tx.Commit(ctx)
	}
	return errors.Join(err, tx.Rollback(ctx))
}
