package sqlcore

import (
	"context"
	"maps"
	"slices"

	"github.com/plimsoll-project/plimsoll/pool"
)

// counts are what the writer counted of pools in its last transactions. They hold as long
// as the pool's version does, which rises with each change of one of its admissions: with
// one replica nothing is counted twice, with several each change of hands costs a count.
// Only the writer's goroutine uses them.
type counts map[string]*poolState // pool -> what was counted

// recall fills in a pool's counts, if they still hold.
func (c counts) recall(name string, p *poolState) {
	if old := c[name]; old != nil && old.version == p.version {
		p.counted, p.line, p.places, p.outOfLine = true, old.line, old.places, old.outOfLine
		p.held, p.tally.Busy, p.recent = old.held, old.tally.Busy, old.recent
	}
}

// keep takes over the counts of a transaction that was committed.
func (c counts) keep(b *books) {
	for name, p := range b.pools {
		if !p.counted {
			delete(c, name)
			continue
		}
		p.outOfLine = p.tally.InLine - p.inLine(b.now)
		if p.touched {
			p.version++
		}
		c[name] = p
	}
}

// count counts the pools whose counts are not at hand.
func (l *loader) count(ctx context.Context) error {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(l.pools)) {
		if !l.pools[name].counted {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	arg, err := names(unknown)
	if err != nil {
		return err
	}
	for _, name := range unknown {
		p := l.pools[name]
		p.counted, p.held = true, map[pool.Holder]int64{}
	}
	if err := each(l.tx.Query(ctx, l.store.sql["held"], arg))(l.enterHeld); err != nil {
		return err
	}
	if err := each(l.tx.Query(ctx, l.store.sql["freed"], arg, int64(l.now.Add(-pool.Grace))))(l.enterFreed); err != nil {
		return err
	}
	err = each(l.tx.Query(ctx, l.store.sql["line"], arg))(func(rows Rows) error {
		w, err := scanWaiter(rows)
		if err == nil {
			p := l.pools[w.Pool]
			p.line, p.places = append(p.line, w), append(p.places, w.Place)
		}
		return err
	})
	l.enterCounts()
	return err
}

func (l *loader) enterHeld(rows Rows) error {
	var name string
	var h pool.Holder
	var n, outOfLine int64
	if err := rows.Scan(&name, &h.Consumer, &h.Priority, &n, &outOfLine); err != nil {
		return err
	}
	p := l.pools[name]
	p.held[h] = n
	p.tally.Busy += n
	p.outOfLine += outOfLine
	return nil
}

func (l *loader) enterFreed(rows Rows) error {
	var name string
	var at pool.Time
	var n int64
	err := rows.Scan(&name, &at, &n)
	l.pools[name].recent.add(at, n)
	return err
}

// uses counts what the tenants with a quota hold, those of waiters too.
func (l *loader) uses(ctx context.Context) error {
	for _, p := range l.pools {
		for _, w := range p.line {
			l.need.tenants[w.Tenant] = true
		}
	}
	tenants := slices.Sorted(maps.Keys(l.need.tenants))
	if err := l.readQuotas(ctx, tenants); err != nil {
		return err
	}
	return l.countUses(ctx, slices.DeleteFunc(tenants, func(t string) bool { return l.Quota(t) == pool.Unlimited }))
}

// readQuotas reads those that were not read with the tenants' locks.
func (l *loader) readQuotas(ctx context.Context, tenants []string) error {
	unread := slices.DeleteFunc(slices.Clone(tenants), func(t string) bool { return l.locked[t] })
	if len(unread) == 0 {
		return nil
	}
	arg, err := names(unread)
	if err != nil {
		return err
	}
	return each(l.tx.Query(ctx, l.store.sql["quotas"], arg))(func(rows Rows) error {
		_, err := l.enterTenant(rows)
		return err
	})
}

func (l *loader) enterTenant(rows Rows) (name string, err error) {
	var quota *int64
	err = rows.Scan(&name, &quota)
	if quota != nil {
		l.quotas[name] = *quota
	}
	return name, err
}

func (l *loader) countUses(ctx context.Context, tenants []string) error {
	if len(tenants) == 0 {
		return nil
	}
	arg, err := names(tenants)
	if err != nil {
		return err
	}
	return each(l.tx.Query(ctx, l.store.sql["use"], arg))(func(rows Rows) error {
		var name string
		var n int64
		err := rows.Scan(&name, &n)
		l.use[name] = n
		return err
	})
}
