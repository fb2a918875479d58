// Package pool decides who is next: whether an admission may take a slot of its pool,
// given the cap, the tenant's quota and who waits ahead of it. It also holds Model,
// the whole store's transitions in memory, which every real store must equal.
//
// It does not decide where a sandbox goes, nor whether a host has room.
//
//	an attempt succeeds ⇔ quota use < quota, and cap − busy > on-time waiters ahead
//
// Worked: a pool of cap 4 with 2 busy has 2 free slots. A newcomer behind one waiter
// whose long poll is held finds 2 > 1 and is admitted; behind two, 2 > 2 is false and it
// takes the next place. Of the two, one that hung up counts for the first 2 s after a
// slot was freed; then it is passed over, and keeps its place.
//
// Nothing here is safe for concurrent use: the store's transaction is the lock.
package pool

// Unlimited is the cap of a pool, or the quota of a tenant, that has none.
const Unlimited int64 = -1

// Limits are the bounds in force for one pool.
type Limits struct {
	Cap        int64 // slots; Unlimited for none
	MaxWaiting int64 // places in its line
}

// Standing is what one claim sees of its pool and tenant, all counted in one transaction.
type Standing struct {
	Limits
	Busy        int64 // slots held
	FreedLately int64 // slots given back within Grace
	InLine      int64 // places taken

	QuotaLimit int64 // Unlimited for none
	QuotaUse   int64 // zero, and not counted, for a tenant without a quota

	Position int64 // 1 is the head of the line

	// Waiters ahead, those of tenants at their quota left out.
	Present      int64 // long poll held, not lately without a host
	Absent       int64 // no long poll held, not yet passed over, not lately without a host
	HostlessKind int64 // kinds, other than the claimant's, of present ones lately without a host
	SameHostless int64 // present ones of the claimant's kind lately without a host
}

// Free is the number of slots nobody holds; a cap that was lowered leaves none, not fewer.
func (s Standing) Free() int64 {
	if s.Cap == Unlimited {
		return 1 << 40
	}
	return max(s.Cap-s.Busy, 0)
}

// graceSlots are the free slots that were freed so lately that absent waiters may still come for them.
func (s Standing) graceSlots() int64 { return min(s.FreedLately, s.Free()) }

// OnTimeAhead is the number of slots that waiters ahead still have a claim on.
func (s Standing) OnTimeAhead() int64 {
	return s.Present + min(s.Absent, s.graceSlots()) + s.HostlessKind
}

// AtQuota says whether the tenant can hold no more.
func (s Standing) AtQuota() bool {
	return s.QuotaLimit != Unlimited && s.QuotaUse >= s.QuotaLimit
}

// Lacks says what keeps the claimant from a slot: ForQuota, ForSlot, ForHost, or
// nothing. A slot would be of no use behind a waiter of the same kind that just found no host.
func (s Standing) Lacks() string {
	switch {
	case s.AtQuota():
		return ForQuota
	case s.Free() <= s.OnTimeAhead():
		return ForSlot
	case s.SameHostless > 0:
		return ForHost
	}
	return ""
}

// Verdict is the outcome of a claim.
type Verdict string

// The verdicts.
const (
	Granted     Verdict = "granted"      // placing, at Row.Gen
	Existing    Verdict = "existing"     // already admitted or running
	Queued      Verdict = "queued"       // waiting, at its place
	BusyPlacing Verdict = "busy_placing" // another call is placing it at this moment
	BusyLeaving Verdict = "releasing"
	PoolFull    Verdict = "pool_full"
	QueueFull   Verdict = "queue_full"
	OverQuota   Verdict = "over_quota"
	PatienceOut Verdict = "timed_out"
	Conflict    Verdict = "conflict"
	NoSuchKey   Verdict = "no_such_key"
	NoSuchPool  Verdict = "no_such_pool"
	NotLoaded   Verdict = "not_loaded" // no limits yet, so nothing is admitted
	HasEnded    Verdict = "has_ended"
)

// Decide says what a claim without a slot gets.
func Decide(s Standing, m Mode, waited bool) Verdict {
	lacks := s.Lacks()
	switch {
	case lacks == "":
		return Granted
	case m == Queue && (waited || s.InLine < s.MaxWaiting):
		return Queued
	case m == Queue:
		return QueueFull
	case lacks == ForQuota:
		return OverQuota
	}
	return PoolFull
}
