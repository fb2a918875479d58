package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
)

// Schema is what the database says of its version.
type Schema = sqlcore.Schema

// remedy is what to do about a schema that is not there, or too old.
const remedy = "run `plimsoll store migrate --config FILE` once; replicas that run now go on"

//go:embed migrations/*.sql
var migrations embed.FS

func known() (fs.FS, error) { return fs.Sub(migrations, "migrations") }

// Status says which version the database's schema is of, and which this program knows.
func Status(ctx context.Context, dsn string) (Schema, error) {
	var s Schema
	err := connected(ctx, dsn, func(conn *pgx.Conn) (err error) {
		s, err = readSchema(ctx, session{conn})
		return err
	})
	return s, err
}

// Script is the SQL that Migrate would run on a schema of a version, for people to read; ""
// when there is none.
func Script(version int) (string, error) {
	dir, err := known()
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(dir, "*.sql")
	if err != nil || version >= len(names) {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s;\n\n", makeVersions)
	for _, name := range names[version:] {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "-- migration %s\n%s\n", name, text)
	}
	return out.String(), nil
}

// Migrate brings the schema up to date, and says what it is then. Of several who do so at
// once, one does and the others see it done.
func Migrate(ctx context.Context, dsn string) (Schema, error) {
	dir, err := known()
	if err != nil {
		return Schema{}, err
	}
	return migrateTo(ctx, dsn, dir)
}

// makeVersions makes the table that the versions are counted in, and gives the one that a
// program of version 1 made its second column. Both stand outside of the migrations, of which
// each holds the row of its version while others wait for it.
const makeVersions = `CREATE TABLE IF NOT EXISTS schema_version (version bigint PRIMARY KEY, oldest_program bigint);
ALTER TABLE schema_version ADD COLUMN IF NOT EXISTS oldest_program bigint`

// migrateTo is Migrate for a program that knows the migrations of dir.
func migrateTo(ctx context.Context, dsn string, dir fs.FS) (Schema, error) {
	var s Schema
	err := connected(ctx, dsn, func(conn *pgx.Conn) error {
		script := func(ctx context.Context, text string) error {
			_, err := conn.PgConn().Exec(ctx, text).ReadAll()
			return err
		}
		migrations, err := fs.Glob(dir, "*.sql")
		if err == nil {
			err = tried(0, func() error { return script(ctx, makeVersions) })
		}
		for more := true; err == nil && more; {
			err = tried(len(migrations), func() (err error) {
				more, err = step(ctx, conn, dir, script)
				return err
			})
		}
		if err == nil {
			s, err = sqlcore.ReadSchema(ctx, session{conn}, dir)
		}
		return err
	})
	return s, err
}

// connected runs something on one connection.
func connected(ctx context.Context, dsn string, do func(*pgx.Conn) error) error {
	config, err := parse(dsn)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return explain(err)
	}
	err = errors.Join(do(conn), conn.Close(context.WithoutCancel(ctx)))
	if err != nil {
		return explain(err)
	}
	return nil
}

// session reads on one connection.
type session struct{ *pgx.Conn }

func (s session) Query(ctx context.Context, query string, args ...any) (sqlcore.Rows, error) {
	return s.Conn.Query(ctx, query, args...)
}

const migrateTries = 5

// tried tries again what another migrator did at the same moment, and what tables in use
// kept from being locked: who waits for a lock keeps all others waiting behind it, so that
// none waits long. Each of the migrations may be the one that another migrator has just made.
func tried(migrations int, do func() error) error {
	for twice, locks := migrateTries+migrations, migrateTries; ; {
		err := do()
		switch {
		case madeTwice(err):
			twice--
		case locked(err):
			locks--
		default:
			return err
		}
		if twice == 0 || locks == 0 {
			return err
		}
	}
}

// step runs one migration in a transaction of its own.
func step(ctx context.Context, conn *pgx.Conn, dir fs.FS, script func(context.Context, string) error) (more bool, err error) {
	t, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL lock_timeout = '" + lockFor + "'"})
	if err != nil {
		return false, err
	}
	more, err = sqlcore.MigrateStep(ctx, tx{t}, dir, script)
	if err == nil {
		err = t.Commit(ctx)
	}
	if err != nil {
		return false, errors.Join(err, undo(ctx, t))
	}
	return more, nil
}

func undo(ctx context.Context, t pgx.Tx) error {
	if err := t.Rollback(context.WithoutCancel(ctx)); !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}

// readSchema finds version 0 where there is no schema.
func readSchema(ctx context.Context, q sqlcore.Querier) (Schema, error) {
	dir, err := known()
	if err != nil {
		return Schema{}, err
	}
	s, err := sqlcore.ReadSchema(ctx, q, dir)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == undefinedTable {
		return s, nil
	}
	return s, err
}

// ready says whether this program may run on the schema.
func ready(s Schema) error {
	err := s.Check()
	switch {
	case err == nil:
		return nil
	case s.Version == 0:
		return fmt.Errorf("%w: the database has no schema yet (or search_path names another): %s", err, remedy)
	case errors.Is(err, sqlcore.ErrOlder):
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}
