// Package pool decides who is next: whether an admission may take a slot of its pool,
// given the cap, the shares, the tenant's quota and who waits ahead of it. It also holds
// Model, the whole store's transitions in memory, which every real store must equal.
//
// It does not decide where a sandbox goes, nor whether a host has room.
//
//	an attempt succeeds ⇔ quota use < quota, and a slot is left once each on-time waiter
//	ahead has taken what it could take
//
// Worked: a pool of cap 4 with 2 busy has 2 free slots. A newcomer behind one waiter
// whose long poll is held finds one left and is admitted; behind two, none is left and it
// takes the next place. Of the two, one that hung up counts for the first 2 s after a
// slot was freed; then it is passed over, and keeps its place.
//
// With one of the four slots reserved for the consumer chat, the others' newcomer finds a
// single slot, and chat's finds two.
//
// Nothing here is safe for concurrent use: the store's transaction is the lock.
package pool

import "time"

// Unlimited is the cap of a pool, or the quota of a tenant, that has none.
const Unlimited int64 = -1

// Limits are the bounds in force for one pool.
type Limits struct {
	Cap        int64 // slots; Unlimited for none
	MaxWaiting int64 // places in its line
	Shares     []Share
	// Enforcement in force: Shadow grants past the cap, and says so.
	Enforcement Enforcement

	// Audience is who demands the tickets of a pool that is placed on no host of ours
	// (placement: none); empty: hosts do.
	Audience  string
	SlotTTL   time.Duration // a slot without a host lives that long unless it is heard of
	TicketTTL time.Duration // and so long a ticket without a host
}

// Standing is what one claim sees of its pool and tenant, all counted in one transaction.
type Standing struct {
	Cap         int64
	MaxWaiting  int64
	Busy        int64 // slots held
	FreedLately int64 // slots given back within Grace
	InLine      int64 // places taken

	QuotaLimit int64 // Unlimited for none
	QuotaUse   int64 // zero, and not counted, for a tenant without a quota
	QuotaAhead int64 // slots of the tenant's that its own waiters ahead take

	Position int64 // 1 is the head of the line

	// Waiters ahead for whom a slot is left.
	Present      int64 // long poll held, not lately without a host
	Absent       int64 // no long poll held, not yet passed over, not lately without a host
	HostlessKind int64 // kinds, other than the claimant's, of present ones lately without a host
	// SameHostless counts those of the claimant's kind that are there and lately found no host.
	SameHostless int64

	Shadow      bool // the pool refuses nothing
	QuotaShadow bool // nor do the quotas

	Left      int64 // slots open to the claimant once those ahead have taken theirs
	ShareFull bool  // the claimant's share holds its max
	// By how much the cap, and the most that the claimant's share may hold, would both have to rise
	// for it to be the claimant's turn, were all ahead there to take theirs.
	Short, ShareShort int64

	// What else a no may rest on.
	Share    ShareStanding // the claimant's; the zero value: it has none
	SetAside int64         // free slots that are reserved for the shares of others
	Override Override      // what an operator set and is in force; the zero value: nothing
}

// Free is the number of slots nobody holds; a cap that was lowered leaves none, not fewer.
func (s Standing) Free() int64 {
	if s.Cap == Unlimited {
		return endless
	}
	return max(s.Cap-s.Busy, 0)
}

// OnTimeAhead is the number of slots that waiters ahead still have a claim on.
func (s Standing) OnTimeAhead() int64 { return s.Present + s.Absent + s.HostlessKind }

// AtQuota says whether the tenant can hold no more, once its waiters ahead have theirs.
func (s Standing) AtQuota() bool {
	return s.QuotaLimit != Unlimited && s.QuotaUse+s.QuotaAhead >= s.QuotaLimit
}

// Lacks says what keeps the claimant from a slot: ForQuota, ForSlot, ForHost, or
// nothing. A slot would be of no use behind a waiter of the same kind that just found no host.
func (s Standing) Lacks() string {
	switch {
	case s.AtQuota() && !s.QuotaShadow:
		return ForQuota
	case s.Shadow:
	case s.Left <= 0:
		return ForSlot
	case s.SameHostless > 0:
		return ForHost
	}
	return ""
}

// count notes what a waiter ahead means for the claimant.
func (s *Standing) count(t turn) {
	switch t {
	case onTime:
		s.Present++
	case spared:
		s.Absent++
	case hostless:
		s.HostlessKind++
	case sameKindFirst:
		s.SameHostless++
	case noTurn, passedBy:
	}
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

// Would says what a claim would get if all were enforced, when that is no slot; "" otherwise.
func (s Standing) Would(m Mode, waited bool) Verdict {
	if !s.Shadow && !s.QuotaShadow {
		return ""
	}
	s.Shadow, s.QuotaShadow = false, false
	if v := Decide(s, m, waited); v != Granted {
		return v
	}
	return ""
}

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
	case s.QuotaLimit != Unlimited && s.QuotaUse >= s.QuotaLimit && !s.QuotaShadow:
		return OverQuota
	}
	return PoolFull
}
