package sqlcore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// errMoved says that a row was no longer as it had been read: try again.
var errMoved = errors.New("a row moved meanwhile")

// need is what a batch of transitions touches.
type need struct {
	keys    map[[2]string]bool
	ids     map[string]bool
	pools   map[string]bool
	tenants map[string]bool
	counts  bool // the pools are counted, and the tenants charged
	all     bool // every pool
	hears   bool // the pulse, and counts of hosts
	leases  bool // when each host was last heard
	seek    bool // some transition does not say in which pool its row is
	numbers int
}

func needOf(ops []*op) need {
	n := need{keys: map[[2]string]bool{}, ids: map[string]bool{}, pools: map[string]bool{}, tenants: map[string]bool{}}
	for _, o := range ops {
		for _, id := range o.ids {
			n.ids[id] = true
		}
		if c := o.claim; c != nil {
			n.keys[[2]string{c.Consumer, c.Key}] = true
			n.touch(c.Pool, c.Contents.Tenant)
		}
		n.seek = n.seek || len(o.ids) > 0 || (o.claim != nil && o.claim.Attempt)
		n.counts = n.counts || o.counts
		n.all = n.all || o.allPools
		n.hears = n.hears || o.hears
		n.leases = n.leases || o.leases
		n.numbers += o.numbers
	}
	return n
}

func (n *need) touch(pool, tenant string) {
	if pool != "" {
		n.pools[pool] = true
		n.tenants[tenant] = true
	}
}

// loader fills the books of one transaction.
type loader struct {
	*books
	store  *Store
	need   need
	locked map[string]bool // tenants whose rows are locked, and whose quotas were read
	again  bool            // an earlier try found a row elsewhere than its transition said
}

// load reads what the batch needs. Lock order: the pools' rows by name, then the tenants'
// rows by name, then the pulse's row, then nothing else; the numbers of the sequence are not locked. Whoever
// changes an admission holds its pool's row, so that plain reads of them are exact.
func (l *loader) load(ctx context.Context) error {
	steps := []func(context.Context) error{l.seek, l.lock, l.settings}
	if l.need.counts {
		steps = append(steps, l.count, l.uses)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	l.wanting = l.need.numbers
	return nil
}

// seek looks where the rows are that the transitions name, and so what has to be locked.
// First calls say themselves in which pool their key ought to be.
func (l *loader) seek(ctx context.Context) error {
	if l.store.dialect.Locks && !l.need.seek && !l.again {
		return nil
	}
	return l.find(ctx)
}

// find loads the rows that the transitions name.
func (l *loader) find(ctx context.Context) error {
	ids := slices.Sorted(maps.Keys(l.need.ids))
	arg, err := names(ids)
	if err == nil && len(ids) > 0 {
		err = each(l.tx.Query(ctx, l.store.sql["find_ids"], arg))(l.enterRow)
	}
	if err != nil || len(l.need.keys) == 0 {
		return err
	}
	if arg, err = array(slices.Collect(maps.Keys(l.need.keys))); err != nil {
		return err
	}
	return each(l.tx.Query(ctx, l.store.sql["find_keys"], arg))(l.enterRow)
}

func (l *loader) enterRow(rows Rows) error {
	r, err := scanRow(rows)
	if err != nil {
		return err
	}
	if l.entries[r.ID] == nil {
		e, stored := l.enter(r.ID), *r
		e.stored, e.row = &stored, r
		l.byKey[[2]string{r.Consumer, r.Key}] = r.ID
	}
	return nil
}

// lock takes the locks, and reads again what others may have changed before it had them.
func (l *loader) lock(ctx context.Context) error {
	for _, e := range l.order {
		l.need.touch(e.row.Pool, e.row.Tenant)
	}
	if err := l.lockPools(ctx); err != nil {
		return err
	}
	if l.store.dialect.Locks {
		if err := l.relock(ctx); err != nil {
			return err
		}
	}
	if l.need.hears {
		if err := l.lockHearing(ctx); err != nil {
			return err
		}
	}
	now, err := l.store.dialect.Now(ctx, l.tx)
	l.now = max(l.now, now)
	l.enterCounts()
	if err == nil && l.need.hears && l.need.leases { // under the lock, and of this instant
		l.hearing.leases, l.hearing.buried, err = leases(ctx, l.tx, l.store.sql["leases"], l.hearing.pulse.LeftBefore(l.now))
	}
	return err
}

// enterCounts lets what was counted before stand for this transaction's instant, and notes
// that the loaded rows are in it, so that a change of them moves it.
func (l *loader) enterCounts() {
	for _, p := range l.pools {
		p.tally.InLine = p.outOfLine + p.inLine(l.now)
		p.tally.FreedLately = p.recent.since(l.now.Add(-pool.Grace))
	}
	for _, e := range l.order {
		e.counts = *e.row
		if p := l.pools[e.row.Pool]; p != nil && e.row.State == pool.Waiting {
			p.replace(e.row)
		}
	}
}

func (l *loader) lockPools(ctx context.Context) error {
	if l.need.all {
		return l.lockAllPools(ctx)
	}
	arg, err := names(slices.Sorted(maps.Keys(l.need.pools)))
	if err != nil {
		return err
	}
	return each(l.tx.Query(ctx, l.store.sql["pools"], arg))(l.enterPool)
}

// lockAllPools takes the locks of those that it sees, and then looks again: what another
// transaction added while this one waited for its locks was not yet to be seen.
func (l *loader) lockAllPools(ctx context.Context) error {
	if err := each(l.tx.Query(ctx, l.store.sql["pools_lock"]))(func(Rows) error { return nil }); err != nil {
		return err
	}
	return each(l.tx.Query(ctx, l.store.sql["pools_all"]))(l.enterPool)
}

func (l *loader) enterPool(rows Rows) error {
	p := &poolState{}
	var touched pool.Time
	name, err := scanPool(rows, &p.limits, &p.override, &p.inForce, &p.lastPlace, &p.version, &touched)
	l.now = max(l.now, touched)
	l.store.counts.recall(name, p)
	l.pools[name] = p
	return err
}

// scanPool reads a pool's columns in the order in which every statement lists them, and
// what follows them in this one.
func scanPool(rows Rows, limits *pool.Limits, o *pool.Override, rest ...any) (name string, err error) {
	var shares string
	var slot, ticket, enforcement int64
	err = rows.Scan(append([]any{
		&name, &limits.Cap, &limits.MaxWaiting, &shares, &limits.Audience, &slot, &ticket, &enforcement,
		&o.Cap, &o.Since, &o.Until, &o.By, &o.Reason,
	}, rest...)...)
	limits.SlotTTL, limits.TicketTTL = time.Duration(slot)*time.Millisecond, time.Duration(ticket)*time.Millisecond
	limits.Enforcement = pool.Enforcement(enforcement)
	if err == nil && shares != noShares {
		limits.Shares, err = decodeShares(shares)
	}
	return name, err
}

func (l *loader) relock(ctx context.Context) error {
	if l.need.counts {
		if err := l.lockTenants(ctx); err != nil {
			return err
		}
	}
	clear(l.entries)
	clear(l.byKey)
	l.order = nil
	if err := l.find(ctx); err != nil {
		return err
	}
	for _, e := range l.order {
		if l.pools[e.row.Pool] == nil || !l.need.tenants[e.row.Tenant] {
			return errMoved
		}
	}
	return nil
}

// lockTenants locks every tenant that may be charged; one never seen before gets a row.
func (l *loader) lockTenants(ctx context.Context) error {
	arg, err := names(slices.Sorted(maps.Keys(l.need.tenants)))
	if err != nil {
		return err
	}
	l.locked = map[string]bool{}
	for range 2 {
		err := each(l.tx.Query(ctx, l.store.sql["tenants"], arg))(func(rows Rows) error {
			name, err := l.enterTenant(rows)
			l.locked[name] = true
			return err
		})
		if err != nil || len(l.locked) == len(l.need.tenants) {
			return err
		}
		if _, err := l.tx.Exec(ctx, l.store.sql["meet_tenants"], arg); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) settings(ctx context.Context) error {
	var quotas, orders int64
	err := each(l.tx.Query(ctx, l.store.sql["settings"]))(func(rows Rows) error {
		l.loaded = true
		return rows.Scan(&l.defaultQuota, &l.ceiling, &quotas, &orders)
	})
	l.quotaRule = pool.Enforcement(quotas)
	if err != nil || orders == 0 {
		return err
	}
	return each(l.tx.Query(ctx, l.store.sql["orders"]))(func(rows Rows) error { return scanOrder(rows, &l.orders) })
}
