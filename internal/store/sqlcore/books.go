package sqlcore

import (
	"context"
	"errors"
	"slices"

	"github.com/plimsoll-project/plimsoll/pool"
)

// books are pool.Books for one transaction: what it needs was loaded under its locks
// before the first transition runs, and what the transitions changed is written at its
// end. Between, nothing touches the database but the sequence.
type books struct {
	ctx  context.Context // of the transaction, whose life the books share
	tx   Tx
	now  pool.Time                    // not before the last change of any of its pools
	take func(n int) ([]int64, error) // numbers from the sequence

	loaded       bool
	defaultQuota int64
	ceiling      int64
	quotaRule    pool.Enforcement
	orders       pool.Orders
	reordered    []pool.Target // whose orders changed
	hearing      hearing
	loosened     bool                  // a limit changed
	entries      map[string]*entry     // id -> admission
	order        []*entry              // in the order in which they were met
	byKey        map[[2]string]string  // consumer, key -> id
	pools        map[string]*poolState // name -> pool
	quotas       map[string]int64      // tenant -> quota of its own
	use          map[string]int64      // tenant with a quota -> slots held
	marked       map[string]*pool.Row  // id -> waiter that a grant went by
	wanting      int                   // numbers that transitions not yet run may want
	numbers      []int64               // taken and not yet given
	err          error                 // the first failure; the transaction is then void
}

// entry is one admission: as it is stored, and as the transitions left it.
type entry struct {
	stored *pool.Row // nil: not yet stored
	row    *pool.Row // nil: removed
	counts pool.Row  // as it stands in the tally, the line and its tenant's use
}

// freed says whether the admission gave a slot back.
func (e *entry) freed() bool {
	return e.stored != nil && e.stored.State.HoldsSlot() && (e.row == nil || !e.row.State.HoldsSlot())
}

// poolState is a pool's row and what is counted of its admissions.
type poolState struct {
	limits     pool.Limits
	override   pool.Override
	overridden bool // the override changed
	inForce    bool
	lastPlace  int64
	version    int64 // under which the pool's row was loaded
	touched    bool  // an admission of the pool changed
	freed      int64 // slots that its admissions gave back

	counted   bool // what follows is filled in
	tally     pool.Tally
	held      map[pool.Holder]int64 // sums to the tally's Busy
	recent    recent                // sums to the tally's FreedLately
	outOfLine int64                 // places kept by those who came out of the line, when it was loaded
	line      []*pool.Row           // waiters by place
	places    []int64               // theirs, for a row is changed before it leaves the line
}

var _ pool.Books = (*books)(nil)

var errNotLoaded = errors.New("a transition touched a pool that it had not locked")

func newBooks(ctx context.Context, tx Tx) *books {
	return &books{
		ctx: ctx, tx: tx, orders: pool.NewOrders(), entries: map[string]*entry{}, byKey: map[[2]string]string{},
		pools: map[string]*poolState{}, quotas: map[string]int64{}, use: map[string]int64{}, marked: map[string]*pool.Row{},
	}
}

func (b *books) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *books) Now() pool.Time { return b.now }

func (b *books) Loaded() bool { return b.loaded }

// Next takes a number. The first one fetches what the rest of the batch may want, so that
// a batch asks the sequence once.
func (b *books) Next() int64 {
	if len(b.numbers) == 0 && b.err == nil {
		var err error
		if b.numbers, err = b.take(max(b.wanting, 1)); err != nil {
			b.fail(err)
		}
	}
	if b.err != nil {
		return 0
	}
	n := b.numbers[0]
	b.numbers = b.numbers[1:]
	return n
}

func (b *books) NextPlace(name string) int64 {
	p := b.pool(name)
	p.lastPlace++
	return p.lastPlace
}

// pool returns a pool that was loaded; to touch another is our own fault, and voids the transaction.
func (b *books) pool(name string) *poolState {
	p := b.pools[name]
	if p == nil {
		b.fail(errNotLoaded)
		p = &poolState{}
	}
	return p
}

func (b *books) Limits(name string) (pool.Limits, bool) {
	p := b.pools[name]
	if p == nil || !p.inForce {
		return pool.Limits{}, false
	}
	return p.limits, true
}

func (b *books) Override(name string) pool.Override {
	if p := b.pools[name]; p != nil {
		return p.override
	}
	return pool.Override{}
}

func (b *books) PutOverride(name string, o pool.Override) {
	p := b.pool(name)
	p.override, p.overridden, b.loosened = o, true, true
}

func (b *books) Orders() *pool.Orders { return &b.orders }

func (b *books) PutOrder(t pool.Target, o pool.Order) {
	b.orders.Put(t, o)
	b.reordered, b.loosened = append(b.reordered, t), true
}

func (b *books) QuotaEnforcement() pool.Enforcement { return b.quotaRule }

func (b *books) Pools() []string {
	var names []string
	for name, p := range b.pools {
		if p.inForce {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (b *books) Ceiling() int64 { return b.ceiling }

func (b *books) Quota(tenant string) int64 {
	if q, ok := b.quotas[tenant]; ok {
		return q
	}
	return b.defaultQuota
}

func (b *books) Use(tenant string) int64 { return b.use[tenant] }

func (b *books) Tally(name string) pool.Tally { return b.pool(name).tally }

func (b *books) Held(name string) map[pool.Holder]int64 { return b.pool(name).held }

func (b *books) CountFreed(name string) { b.pool(name).freed++ }

func (b *books) Line(name string) []*pool.Row { return b.pool(name).line }

func (b *books) Find(consumer, key string) *pool.Row {
	return b.ByID(b.byKey[[2]string{consumer, key}])
}

func (b *books) ByID(id string) *pool.Row {
	if e := b.entries[id]; e != nil {
		return e.row
	}
	return nil
}

// Mark notes a waiter of which only the line's part may be loaded.
func (b *books) Mark(w *pool.Row) { b.marked[w.ID] = w }

func (b *books) Put(r *pool.Row) {
	e := b.entries[r.ID]
	if e == nil {
		e = b.enter(r.ID)
	}
	b.uncount(e)
	e.row = r
	b.byKey[[2]string{r.Consumer, r.Key}] = r.ID
	b.count(e)
}

func (b *books) enter(id string) *entry {
	e := &entry{}
	b.entries[id] = e
	b.order = append(b.order, e)
	return e
}

func (b *books) Remove(r *pool.Row) {
	e := b.entries[r.ID]
	b.uncount(e)
	e.row = nil
	delete(b.byKey, [2]string{r.Consumer, r.Key})
}

// uncount takes a row out of everything that counts it, as it was when it was counted.
func (b *books) uncount(e *entry) {
	if e.counts.ID == "" {
		return
	}
	b.add(&e.counts, -1)
	if p := b.pools[e.counts.Pool]; p != nil && p.counted && e.counts.State == pool.Waiting {
		p.leave(e.counts.Place)
	}
	e.counts = pool.Row{}
}

func (b *books) count(e *entry) {
	e.counts = *e.row
	b.add(e.row, 1)
	if p := b.pools[e.row.Pool]; p != nil && p.counted && e.row.State == pool.Waiting {
		p.join(e.row)
	}
}

// inLine counts the waiters who still have patience.
func (p *poolState) inLine(now pool.Time) int64 {
	var t pool.Tally
	for _, w := range p.line {
		t.Count(w, now, 1)
	}
	return t.InLine
}

// replace puts a row that was loaded as a whole in its place in the line.
func (p *poolState) replace(w *pool.Row) {
	if i, found := slices.BinarySearch(p.places, w.Place); found {
		p.line[i] = w
	}
}

func (p *poolState) join(w *pool.Row) {
	i, _ := slices.BinarySearch(p.places, w.Place)
	p.line, p.places = slices.Insert(p.line, i, w), slices.Insert(p.places, i, w.Place)
}

func (p *poolState) leave(place int64) {
	if i, found := slices.BinarySearch(p.places, place); found {
		p.line, p.places = slices.Delete(p.line, i, i+1), slices.Delete(p.places, i, i+1)
	}
}

func (b *books) add(r *pool.Row, by int64) {
	if r.State.HoldsSlot() {
		b.use[r.Tenant] += by
	}
	p := b.pools[r.Pool]
	if p == nil {
		return
	}
	p.tally.Count(r, b.now, by)
	if !p.counted {
		return
	}
	if r.State.HoldsSlot() {
		p.hold(r.Holder(), by)
	}
	if r.FreedAt != 0 && b.now.Since(r.FreedAt) < pool.Grace {
		p.recent.add(r.FreedAt, by)
	}
}

func (p *poolState) hold(h pool.Holder, n int64) {
	if p.held[h] += n; p.held[h] == 0 {
		delete(p.held, h)
	}
}
