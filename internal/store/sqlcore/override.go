package sqlcore

import (
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Override sets a pool's cap for a while.
func (s *Store) Override(ctx context.Context, name string, o pool.Override, lasts time.Duration) (pool.OverrideVerdict, pool.Limits, error) {
	deed := control.Deed{By: o.By, What: control.OverrideDeed(name, o.Cap, lasts), Reason: o.Reason}
	return s.override(ctx, deed, func(k pool.Clerk) (pool.OverrideVerdict, pool.Limits) { return k.Override(name, o, lasts) })
}

// Resume takes back what an operator set.
func (s *Store) Resume(ctx context.Context, name, by, reason string) (pool.OverrideVerdict, pool.Limits, error) {
	deed := control.Deed{By: by, What: control.ResumeDeed(name), Reason: reason}
	return s.override(ctx, deed, func(k pool.Clerk) (pool.OverrideVerdict, pool.Limits) { return k.Resume(name) })
}

// override locks every pool: the caps of all of them are summed.
func (s *Store) override(ctx context.Context, deed control.Deed, step func(pool.Clerk) (pool.OverrideVerdict, pool.Limits)) (pool.OverrideVerdict, pool.Limits, error) {
	type overridden struct {
		verdict pool.OverrideVerdict
		was     pool.Limits
	}
	var verdict pool.OverrideVerdict // for exec, which runs after the step in the same goroutine
	o := op{alone: true, allPools: true, exec: func(ctx context.Context, l *loader) error {
		if verdict != pool.Overridden {
			return nil
		}
		return l.done(ctx, deed)
	}}
	v, err := submit(ctx, s, o, func(k pool.Clerk) (v overridden) {
		v.verdict, v.was = step(k)
		verdict = v.verdict
		return v
	})
	return v.verdict, v.was, err
}

// done writes what an operator did into the same transaction; a deed that is there by its origin stays as it is.
func (l *loader) done(ctx context.Context, d control.Deed) error {
	_, err := l.tx.Exec(ctx, l.store.sql["audit_add"], int64(l.now), d.By, d.What, d.Reason, d.Origin)
	return err
}

// Audit returns what operators did, the newest first.
func (s *Store) Audit(ctx context.Context, limit int) ([]control.Deed, error) {
	var out []control.Deed
	err := each(s.db.Query(ctx, s.sql["audit"], int64(limit)))(func(rows Rows) error {
		var d control.Deed
		err := rows.Scan(&d.At, &d.By, &d.What, &d.Reason)
		out = append(out, d)
		return err
	})
	return out, s.explain(err)
}
