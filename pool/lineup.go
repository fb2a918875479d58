package pool

// lineup lets each waiter ahead of a row, in the order of their places, take the slot that
// it could take. What is left then is the row's to take.
type lineup struct {
	clerk   Clerk
	row     *Row
	slots   slots
	grace   int64            // free slots that were freed so lately that absent waiters may still come for them
	tenants map[string]int64 // tenant -> slots that its waiters ahead take
	kinds   map[string]bool  // that have a present waiter lately without a host
	behind  int64            // of those met, took nothing
	ofShare int64            // and are of the row's share
}

// turn is what a waiter ahead means for those behind it.
type turn uint8

const (
	noTurn        turn = iota // it could take no slot now, and stands in nobody's way
	onTime                    // it is there, and a slot is left for it
	spared                    // it is away, and a slot that was just freed is left for it
	passedBy                  // it is away, and let its slot go by
	hostless                  // it just found no host; a slot is left for its kind
	sameKindFirst             // it just found no host, and the row wants the same hosts
)

// lineUp begins with what is free when the row itself holds nothing.
func (k Clerk) lineUp(r *Row, l *Limits, freedLately int64) *lineup {
	u := &lineup{clerk: k, row: r, slots: freeSlots(l, k.books.Held(r.Pool))}
	if r.State.HoldsSlot() {
		u.slots = freeSlots(l, without(k.books.Held(r.Pool), r.Holder()))
	}
	u.grace = max(min(freedLately, u.slots.free), 0)
	return u
}

func without(held map[Holder]int64, h Holder) map[Holder]int64 {
	out := make(map[Holder]int64, len(held))
	for other, n := range held {
		out[other] = n
	}
	out[h]--
	return out
}

// meet says what a waiter's turn is, and notes who took nothing.
func (u *lineup) meet(w *Row) turn {
	t := u.turnOf(w)
	if t == noTurn || t == passedBy || t == sameKindFirst {
		u.behind++
		if i := u.slots.limits.shareOf(u.row.Holder()); i >= 0 && u.slots.limits.shareOf(w.Holder()) == i {
			u.ofShare++
		}
	}
	return t
}

// short says what the row lacks if all who took nothing so far still do.
func (u *lineup) short() (slots, share int64) {
	return u.slots.short(u.row.Holder(), u.behind, u.ofShare)
}

// turnOf says what a waiter's turn is. One for whom no slot is left stands in nobody's way, not
// even if it just found no host: the row may have a slot that it may not.
func (u *lineup) turnOf(w *Row) turn {
	now := u.clerk.books.Now()
	switch {
	case u.atQuota(w.Tenant) || u.slots.open(w.Holder()) == 0:
		return noTurn
	case !w.present(now) && !w.Late && !w.hostless(now):
		return u.meetAbsent(w)
	case !w.present(now):
		return noTurn
	case !w.hostless(now):
		return u.take(w, onTime)
	case w.Kind() == u.row.Kind():
		return sameKindFirst
	case u.kinds[w.Kind()]:
		return noTurn
	}
	if u.kinds == nil {
		u.kinds = map[string]bool{}
	}
	u.kinds[w.Kind()] = true
	return u.take(w, hostless)
}

func (u *lineup) meetAbsent(w *Row) turn {
	if w.graceSpent(u.clerk.books.Now()) || u.grace == 0 {
		return passedBy
	}
	u.grace--
	return u.take(w, spared)
}

func (u *lineup) take(w *Row, as turn) turn {
	u.slots.hold(w.Holder(), 1)
	if u.tenants == nil {
		u.tenants = map[string]int64{}
	}
	u.tenants[w.Tenant]++
	return as
}

// atQuota says whether a tenant can hold no more, once those ahead have taken theirs.
func (u *lineup) atQuota(tenant string) bool {
	if u.clerk.quotaShadow() {
		return false
	}
	q := u.clerk.books.Quota(tenant)
	return q != Unlimited && u.clerk.use(tenant, u.row)+u.tenants[tenant] >= q
}
