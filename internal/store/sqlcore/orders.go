package sqlcore

import (
	"context"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Shadow takes something out of force until Enforce.
func (s *Store) Shadow(ctx context.Context, t pool.Target, by, reason string) (pool.OrderVerdict, error) {
	deed := control.Deed{By: by, What: control.ShadowDeed(t), Reason: reason}
	return s.order(ctx, deed, func(k pool.Clerk) pool.OrderVerdict { return k.Shadow(t, by, reason) })
}

// Enforce takes an order back, and for all every order.
func (s *Store) Enforce(ctx context.Context, t pool.Target, by, reason string) (pool.OrderVerdict, error) {
	deed := control.Deed{By: by, What: control.EnforceDeed(t), Reason: reason}
	return s.order(ctx, deed, func(k pool.Clerk) pool.OrderVerdict { return k.Enforce(t) })
}

// order locks every pool, so that each claim sees it wholly or not at all.
func (s *Store) order(ctx context.Context, deed control.Deed, step func(pool.Clerk) pool.OrderVerdict) (pool.OrderVerdict, error) {
	var verdict pool.OrderVerdict // for exec, which runs after the step in the same goroutine
	o := op{alone: true, allPools: true, exec: func(ctx context.Context, l *loader) error {
		if verdict != pool.Ordered {
			return nil
		}
		if err := l.writeOrders(ctx); err != nil {
			return err
		}
		return l.done(ctx, deed)
	}}
	return submit(ctx, s, o, func(k pool.Clerk) pool.OrderVerdict {
		verdict = step(k)
		return verdict
	})
}

func (l *loader) writeOrders(ctx context.Context) (err error) {
	for _, t := range l.reordered {
		if o := l.orders.Get(t); o.Given() {
			_, err = l.tx.Exec(ctx, l.store.sql["orders_put"], string(t.Scope), t.Name, int64(o.Since), o.By, o.Reason)
		} else {
			_, err = l.tx.Exec(ctx, l.store.sql["orders_drop"], string(t.Scope), t.Name)
		}
		if err != nil {
			return err
		}
	}
	return l.moved(ctx) // replicas read the orders with the registry
}

// Orders returns those that stand.
func (s *Store) Orders(ctx context.Context) (pool.Orders, error) {
	out := pool.NewOrders()
	err := each(s.db.Query(ctx, s.sql["orders"]))(func(rows Rows) error { return scanOrder(rows, &out) })
	return out, s.explain(err)
}

func scanOrder(rows Rows, to *pool.Orders) error {
	var t pool.Target
	var o pool.Order
	err := rows.Scan(&t.Scope, &t.Name, &o.Since, &o.By, &o.Reason)
	to.Put(t, o)
	return err
}

// Note writes into the audit what somebody did past every replica; once, however often it is told.
func (s *Store) Note(ctx context.Context, d control.Deed) error {
	return s.queue.submit(ctx, &op{exec: func(ctx context.Context, l *loader) error { return l.done(ctx, d) }})
}
