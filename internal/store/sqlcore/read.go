package sqlcore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll-project/plimsoll/digest"
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

// FreedTotals counts by pool the slots that admissions gave back, ever.
func (s *Store) FreedTotals(ctx context.Context) (map[string]int64, error) {
	totals := map[string]int64{}
	err := each(s.db.Query(ctx, s.sql["freed_totals"]))(func(rows Rows) error {
		var name string
		var n int64
		err := rows.Scan(&name, &n)
		totals[name] = n
		return err
	})
	return totals, s.explain(err)
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
	equal("pool", f.Pool)
	if f.Host != "" {
		query.WriteString(" AND a.host <> ''") // as its index says
	}
	if len(f.States) > 0 {
		states, err := array(wrapped(f.States))
		if err != nil {
			return nil, err
		}
		and(" AND a.state IN (SELECT value ->> 0 FROM @rows($%d) AS wanted)", states)
		if !slices.ContainsFunc(f.States, func(st pool.State) bool { return !st.HoldsSlot() }) {
			query.WriteString(" AND a.state IN ('placing', 'admitted', 'running', 'releasing')") // as its index says
		}
	}
	if f.After != "" {
		and(" AND a.id > $%d", f.After)
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
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	orders, err := s.Orders(ctx)
	if err != nil {
		return nil, err
	}
	var out []pool.Line
	at := map[string]int{} // pool -> index
	err = each(s.db.Query(ctx, s.sql["lines"]))(func(rows Rows) (err error) {
		l := pool.Line{Held: map[pool.Holder]int64{}}
		var o pool.Override
		l.Name, err = scanPool(rows, &l.Limits, &o, &l.Waiting)
		if o.InForce(now) {
			l.Override, l.Limits.Cap = o, o.Cap
		}
		if orders.ShadowsPool(l.Name) {
			l.Limits.Enforcement = pool.Shadow
		}
		at[l.Name] = len(out)
		out = append(out, l)
		return err
	})
	if err != nil {
		return nil, s.explain(err)
	}
	err = each(s.db.Query(ctx, s.sql["holders"]))(func(rows Rows) error {
		var name string
		var h pool.Holder
		var n, running int64
		err := rows.Scan(&name, &h.Consumer, &h.Priority, &n, &running)
		if i, inForce := at[name]; inForce {
			out[i].Held[h], out[i].Busy, out[i].Running = n, out[i].Busy+n, out[i].Running+running
		}
		return err
	})
	return out, s.explain(err)
}

// Holdings sums up what is on each host.
func (s *Store) Holdings(ctx context.Context) (map[string]pool.Holding, error) {
	out := map[string]pool.Holding{}
	err := each(s.db.Query(ctx, s.sql["holdings"]))(func(rows Rows) error {
		var name string
		var state pool.State
		var sum digest.Sum
		err := rows.Scan(&name, &state, &sum.N, &sum.First, &sum.Second)
		h := out[name]
		if in := h.In(state); in != nil {
			*in = sum
		}
		out[name] = h
		return err
	})
	return out, s.explain(err)
}

// Now is the store's clock.
func (s *Store) Now(ctx context.Context) (pool.Time, error) {
	now, err := s.dialect.Now(ctx, s.db)
	return now, s.explain(err)
}
