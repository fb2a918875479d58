package sqlcore

import (
	"context"
	"embed"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/plimsoll-project/plimsoll/pool"
)

// DB is a database as the core uses it. Begin opens a transaction that may write; Query
// reads what is committed.
type DB interface {
	Begin(ctx context.Context) (Tx, error)
	Query(ctx context.Context, query string, args ...any) (Rows, error)
	Close() error
}

// Querier reads.
type Querier interface {
	Query(ctx context.Context, query string, args ...any) (Rows, error)
}

// Tx is one transaction. It has one owner.
type Tx interface {
	Query(ctx context.Context, query string, args ...any) (Rows, error)
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// Rows is what a query answers, as database/sql and pgx have it.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// Kind is what an error means for the transitions that met it.
type Kind int

// The kinds of errors.
const (
	Fatal Kind = iota // for all that shared the transaction
	Retry             // nothing was written, and the next try may succeed
	Split             // of one transition alone: the others are tried without it
)

// Change is a way to write an admission.
type Change int

// The changes: a new row; one that moved; one whose key starts anew, with other contents.
const (
	Insert Change = iota
	Step
	Restart
)

// Dialect is everything in which the two databases differ.
type Dialect struct {
	// Rewrite turns a statement of sql/*.sql, with its macros @rows($n) (the elements of a
	// JSON array, in a column named value) and @lock, into one for this database.
	Rewrite func(string) string
	// Numbers takes $1 numbers from the sequence; each row is a first and a last one.
	Numbers string
	// Write writes rows in one way and returns how many it hit.
	Write func(ctx context.Context, tx Tx, c Change, rows []Record) (int64, error)
	// Now is the store's clock, read inside a transaction that holds its locks, or outside of any.
	Now func(ctx context.Context, q Querier) (pool.Time, error)
	// Steady, if not nil, makes up for what its source was set back; it runs under the lock
	// of the pulse.
	Steady func(ctx context.Context, tx Tx) error
	// Locks says that other processes write too: what was read before the locks were
	// taken is read again, and tenants are locked as well as pools.
	Locks bool
	// Freed is told after each commit that gave a slot back or changed a limit. It must not
	// wait. Nil: there is no other replica to tell.
	Freed func()
	// Kind tells what an error means; at the commit it may mean that all was written.
	// Explain adds what to do about it.
	Kind    func(err error, committing bool) Kind
	Explain func(error) error
}

//go:embed sql/*.sql
var files embed.FS

// Macros and comments of a statement.
var (
	macroRows = regexp.MustCompile(`@rows\((\$\d)\)`)
	comment   = regexp.MustCompile(`(?m)^--.*\n`)
)

// RewriteWith makes a Rewrite out of what stands for the rows of an array and for a lock.
func RewriteWith(rows, lock string) func(string) string {
	return func(s string) string {
		return strings.ReplaceAll(macroRows.ReplaceAllString(s, rows), "@lock", lock)
	}
}

// statements reads every statement and rewrites it: name -> SQL.
func statements(rewrite func(string) string) (map[string]string, error) {
	entries, err := files.ReadDir("sql")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("sql", e.Name()))
		if err != nil {
			return nil, fmt.Errorf("statement %s: %w", e.Name(), err)
		}
		name := strings.TrimSuffix(e.Name(), ".sql")
		out[name] = rewrite(Plain(text))
	}
	return out, nil
}

// Plain is a statement without its comments, for drivers that keep only single statements prepared.
func Plain(text []byte) string {
	return strings.TrimSpace(comment.ReplaceAllString(string(text), ""))
}

// each takes what a query answered and returns a loop over its rows, which closes them.
func each(rows Rows, err error) func(scan func(Rows) error) error {
	return func(scan func(Rows) error) error {
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}
