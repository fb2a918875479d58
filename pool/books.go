package pool

// Books are what the transitions read and write: the store, as one transaction sees it.
// A transaction holds the locks of every pool whose rows it touches and of every tenant
// that it may charge, so that nothing it counted changes before it commits.
//
// Rows are handed out as pointers and changed in place; Put must follow each change.
type Books interface {
	// Now is the store's clock; the same instant throughout one transaction.
	Now() Time
	// Next takes a number from the store's sequence.
	Next() int64
	// NextPlace takes the place behind all others of a pool's line.
	NextPlace(pool string) int64

	// Loaded says whether any limits are in force.
	Loaded() bool
	// Limits are those of one pool, as configured; ok is false when no such pool is in force.
	Limits(pool string) (l Limits, ok bool)
	// Override is what an operator set of a pool for a while.
	Override(pool string) Override
	// PutOverride stores it.
	PutOverride(pool string, o Override)
	// Orders are those of operators that stand.
	Orders() *Orders
	// PutOrder stores one; the zero value takes it back.
	PutOrder(t Target, o Order)
	// QuotaEnforcement is the configuration's.
	QuotaEnforcement() Enforcement
	// Pools names those in force, and Ceiling is what their caps may sum to, Unlimited for
	// no bound; asked by Override alone.
	Pools() []string
	Ceiling() int64
	// Pulse is the last one written, with the gap that follows from the limits in force.
	Pulse() Pulse
	// PutPulse stores it.
	PutPulse(p Pulse)
	// Silent counts the registered hosts that are silent, and all, but for those that are buried
	// or have left, as Pulse.Silent does; asked by Pulse alone.
	Silent() (silent, of int)
	// Leases says when each registered host was last heard that is not buried; asked by Sweep
	// alone.
	Leases() map[string]Lease
	// Buried names the hosts that an operator buried; asked by Sweep alone.
	Buried() []string
	// Quota is the most slots that a tenant may hold, Unlimited for none.
	Quota(tenant string) int64
	// Use counts the slots that a tenant holds, in all pools; asked only of tenants with a quota.
	Use(tenant string) int64
	// Tally counts all rows of a pool.
	Tally(pool string) Tally
	// Held counts the slots of a pool by who holds them; it sums to Tally's Busy.
	Held(pool string) map[Holder]int64
	// CountFreed counts one more slot of a pool that an admission gave back.
	CountFreed(pool string)
	// Line returns a pool's waiters in the order of their places. Of these rows only what
	// the line itself reads has to be filled in: ID, Consumer, Contents, State, Place, Late,
	// SparedAt, PresentUntil, HostlessAt, QueuedAt and MaxQueueAge.
	Line(pool string) []*Row
	// Mark stores Late and SparedAt of a waiter out of Line.
	Mark(w *Row)

	// Find returns the row of a consumer's key, nil for none.
	Find(consumer, key string) *Row
	// ByID returns the row of an id, nil for none.
	ByID(id string) *Row
	// Put stores a row, new or changed.
	Put(r *Row)
	// Remove forgets a row.
	Remove(r *Row)
}

// Tally is what is counted of a pool's rows.
type Tally struct {
	Busy        int64 // slots held
	FreedLately int64 // rows that gave a slot back within Grace
	InLine      int64 // places taken
}

// Count adds one row to the tally, or takes it out again with by = -1.
func (t *Tally) Count(r *Row, now Time, by int64) {
	if r.State.HoldsSlot() {
		t.Busy += by
	}
	if r.freedLately(now) {
		t.FreedLately += by
	}
	if r.inLine(now) {
		t.InLine += by
	}
}
