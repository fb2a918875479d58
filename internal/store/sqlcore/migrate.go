package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// ErrNewer says that a newer program has changed the schema in a way that this one does
// not know. Migrations only go forward.
var ErrNewer = errors.New("the database's schema is newer than this program")

// Migrate brings the schema to the newest version among dir's files (0001.sql, …), inside
// the caller's transaction, which must keep every other migrator out. Each step is one
// that the program before it can live with: columns come in one release (expand) and
// others go in a later one (contract).
func Migrate(ctx context.Context, tx Tx, dir fs.FS, script func(ctx context.Context, sql string) error) error {
	files, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return err
	}
	slices.Sort(files)
	have, err := version(ctx, tx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if have > len(files) {
		return fmt.Errorf("%w: version %d, this program knows %d; use the newer program", ErrNewer, have, len(files))
	}
	for i, name := range files[have:] {
		if err := apply(ctx, tx, dir, name, have+i+1, script); err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
	}
	return nil
}

func version(ctx context.Context, tx Tx) (int, error) {
	v := 0
	err := each(tx.Query(ctx, "SELECT coalesce(max(version), 0) FROM schema_version"))(func(rows Rows) error {
		return rows.Scan(&v)
	})
	return v, err
}

func apply(ctx context.Context, tx Tx, dir fs.FS, name string, v int, script func(context.Context, string) error) error {
	if n, err := strconv.Atoi(strings.TrimSuffix(name, ".sql")); err != nil || n != v {
		return fmt.Errorf("its name must be %04d.sql", v)
	}
	text, err := fs.ReadFile(dir, name)
	if err != nil {
		return err
	}
	if err := script(ctx, string(text)); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO schema_version (version) VALUES ($1)", int64(v))
	return err
}

// Newest returns the newest instant that any row knows.
func (s *Store) Newest(ctx context.Context) (int64, error) {
	var at int64
	err := each(s.db.Query(ctx, s.sql["newest"]))(func(rows Rows) error { return rows.Scan(&at) })
	return at, err
}
