package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What a schema and a program may be to each other.
var (
	// ErrNewer says that a newer program has changed the schema in a way that this one
	// cannot live with. Migrations only go forward.
	ErrNewer = errors.New("the database's schema is newer than this program can work on")
	// ErrOlder says that the schema lacks what this program needs.
	ErrOlder = errors.New("the database's schema is older than this program")
)

// Schema is what a database says of its version. Each migration names the oldest program that
// may run on what it leaves: one that only adds (expand) lets the former program run on, so
// that it can be rolled back to; one that takes away (contract) does not, and comes in a
// release after the last program that needed what it takes.
type Schema struct {
	Version int // of its newest migration; 0: there is nothing yet
	Oldest  int // the oldest version whose program may run on it
	Known   int // the newest version that this program knows
}

// Check says whether this program may run on the schema.
func (s Schema) Check() error {
	switch {
	case s.Version < s.Known:
		return fmt.Errorf("%w: version %d, and this program needs %d", ErrOlder, s.Version, s.Known)
	case s.Version > s.Known && s.Known < s.Oldest:
		return fmt.Errorf("%w: version %d asks for a program that knows version %d, and this one knows %d: use the newer program, "+
			"or restore a backup from before the migration", ErrNewer, s.Version, s.Oldest, s.Known)
	}
	return nil
}

// ReadSchema asks a database that has the table schema_version.
func ReadSchema(ctx context.Context, q Querier, dir fs.FS) (Schema, error) {
	files, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return Schema{}, err
	}
	s := Schema{Known: len(files)}
	scan := func(to *int) func(Rows) error { return func(rows Rows) error { return rows.Scan(to) } }
	err = each(q.Query(ctx, "SELECT coalesce(max(version), 0) FROM schema_version"))(scan(&s.Version))
	s.Oldest = s.Version
	if err == nil && s.Version >= firstPolicy {
		err = each(q.Query(ctx, "SELECT max(coalesce(oldest_program, version)) FROM schema_version"))(scan(&s.Oldest))
	}
	return s, err
}

// firstPolicy is the first migration that names the oldest program.
const firstPolicy = 2

// MigrateStep runs the next of dir's migrations (0001.sql, …) inside the caller's transaction,
// and says whether there was one. The row of its version is the lock: of two who migrate at
// once, one meets the other's and fails.
func MigrateStep(ctx context.Context, tx Tx, dir fs.FS, script func(ctx context.Context, sql string) error) (done bool, err error) {
	s, err := ReadSchema(ctx, tx, dir)
	if err != nil {
		return false, fmt.Errorf("read the schema's version: %w", err)
	}
	if s.Version >= s.Known {
		return false, s.Check()
	}
	files, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return false, err
	}
	slices.Sort(files)
	if err := migrate(ctx, tx, dir, files[s.Version], s.Version+1, script); err != nil {
		return false, fmt.Errorf("migration %s: %w", files[s.Version], err)
	}
	return true, nil
}

func migrate(ctx context.Context, tx Tx, dir fs.FS, name string, v int, script func(context.Context, string) error) error {
	if n, err := strconv.Atoi(strings.TrimSuffix(name, ".sql")); err != nil || n != v {
		return fmt.Errorf("its name must be %04d.sql", v)
	}
	text, err := fs.ReadFile(dir, name)
	if err != nil {
		return err
	}
	oldest, err := oldestProgram(string(text), v)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO schema_version (version) VALUES ($1)", int64(v)); err != nil {
		return err
	}
	if err := script(ctx, string(text)); err != nil {
		return err
	}
	if v >= firstPolicy {
		_, err = tx.Exec(ctx, "UPDATE schema_version SET oldest_program = $1 WHERE version = $2", int64(oldest), int64(v))
	}
	return err
}

var oldestLine = regexp.MustCompile(`^-- oldest_program: (\d+)\n`)

// oldestProgram reads a migration's first line.
func oldestProgram(text string, v int) (int, error) {
	if v < firstPolicy {
		return v, nil
	}
	m := oldestLine.FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New("its first line must name the oldest program that may run on it, as in `-- oldest_program: 1`")
	}
	oldest, err := strconv.Atoi(m[1])
	if err != nil || oldest < 1 || oldest > v {
		return 0, fmt.Errorf("oldest_program is %s, and must be from 1 to %d", m[1], v)
	}
	return oldest, nil
}

// Newest returns the newest instant that any row knows.
func (s *Store) Newest(ctx context.Context) (int64, error) {
	var at int64
	err := each(s.db.Query(ctx, s.sql["newest"]))(func(rows Rows) error { return rows.Scan(&at) })
	return at, err
}
