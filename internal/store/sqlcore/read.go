package sqlcore

import (
	"context"
	"fmt"
	"strings"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Get returns an admission by its consumer and key.
func (s *Store) Get(ctx context.Context, consumer, key string) (pool.Row, bool, error) {
	arg, err := array([][2]string{{consumer, key}})
	if err != nil {
		return pool.Row{}, false, err
	}
	return s.one(ctx, s.sql["find_keys"], arg)
}

// ByID returns an admission by its id.
func (s *Store) ByID(ctx context.Context, id string) (pool.Row, bool, error) {
	arg, err := names([]string{id})
	if err != nil {
		return pool.Row{}, false, err
	}
	return s.one(ctx, s.sql["find_ids"], arg)
}

func (s *Store) one(ctx context.Context, query string, arg any) (pool.Row, bool, error) {
	rows, err := s.rows(ctx, query, arg)
	if err != nil || len(rows) == 0 {
		return pool.Row{}, false, err
	}
	return rows[0], true, nil
}

func (s *Store) rows(ctx context.Context, query string, args ...any) ([]pool.Row, error) {
	var out []pool.Row
	err := each(s.db.Query(ctx, query, args...))(func(rows Rows) error {
		r, err := scanRow(rows)
		out = append(out, *r)
		return err
	})
	return out, s.explain(err)
}

// List returns admissions by id. Conditions are put together here, because one statement
// for all of them could use no index.
func (s *Store) List(ctx context.Context, f control.Filter) ([]pool.Row, error) {
	query, args := strings.Builder{}, []any(nil)
	query.WriteString(s.sql["list"])
	and := func(condition string, arg any) {
		args = append(args, arg)
		fmt.Fprintf(&query, condition, len(args))
	}
	equal := func(column, value string) {
		if value != "" {
			and(" AND a."+column+" = $%d", value)
		}
	}
	equal("consumer", f.Consumer)
	equal("host", f.Host)
	equal("class", f.Class)
	if f.Host != "" {
		query.WriteString(" AND a.host <> ''") // as its index says
	}
	if len(f.States) > 0 {
		states, err := array(wrapped(f.States))
		if err != nil {
			return nil, err
		}
		and(" AND a.state IN (SELECT value ->> 0 FROM @rows($%d) AS wanted)", states)
	}
	query.WriteString(" ORDER BY a.id")
	if f.Limit > 0 {
		and(" LIMIT $%d", int64(f.Limit))
	}
	return s.rows(ctx, s.dialect.Rewrite(query.String()), args...)
}

func wrapped[T any](items []T) [][1]T {
	out := make([][1]T, len(items))
	for i, item := range items {
		out[i][0] = item
	}
	return out
}

// Lines returns every pool in force, by name.
func (s *Store) Lines(ctx context.Context) ([]pool.Line, error) {
	var out []pool.Line
	err := each(s.db.Query(ctx, s.sql["lines"]))(func(rows Rows) error {
		var l pool.Line
		err := rows.Scan(&l.Name, &l.Limits.Cap, &l.Limits.MaxWaiting, &l.Busy, &l.Waiting)
		out = append(out, l)
		return err
	})
	return out, s.explain(err)
}

// Config returns the document in force; generation 0 when there is none yet.
func (s *Store) Config(ctx context.Context) (control.Config, error) {
	var c control.Config
	err := each(s.db.Query(ctx, s.sql["config"]))(func(rows Rows) error {
		return rows.Scan(&c.Generation, &c.Document, &c.By, &c.AppliedAt)
	})
	return c, s.explain(err)
}

// Now is the store's clock.
func (s *Store) Now(ctx context.Context) (pool.Time, error) {
	now, err := s.clock(ctx, readOnly{s.db})
	return now, s.explain(err)
}

// readOnly lets the clock be read outside a transaction.
type readOnly struct{ DB }

func (readOnly) Exec(context.Context, string, ...any) (int64, error) { return 0, ErrClosed }
func (readOnly) Commit(context.Context) error                        { return nil }
func (readOnly) Rollback(context.Context) error                      { return nil }
