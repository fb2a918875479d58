package pool

import "slices"

// Untidy is why a row is not left as it is.
type Untidy string

// The reasons.
const (
	Tidy          Untidy = ""
	LostPlacing   Untidy = "lost_placing"    // its replica was lost
	OutOfPatience Untidy = "out_of_patience" // waited max_queue_age
	Overdue       Untidy = "overdue"         // nothing was heard of a slot without a host for slot_ttl
	DeadHost      Untidy = "dead_host"       // it is stateless, and its host is dead
	Forgotten     Untidy = "forgotten"       // it ended a day ago
	BuriedHost    Untidy = "buried_host"     // its host was buried
)

// Gone are the hosts, by name, on which nothing is believed to run: by their silence, which a
// stateful sandbox may outlive, or by an operator's word.
type Gone struct{ Dead, Buried []string }

// Look says whether the sweep would change a row: limits are those of its pool. An outage in
// which nobody could hear gives a slot its time again.
func Look(r *Row, now Time, p Pulse, l Limits, gone Gone) Untidy {
	l.fill()
	switch {
	case r.State == Placing && now.Since(r.PlacingAt) >= PlacingFor:
		return LostPlacing
	case r.TooOld(now):
		return OutOfPatience
	case r.live() && now >= r.LiveUntil && p.heardFor(now, l.SlotTTL):
		return Overdue
	case r.State.OnHost() && slices.Contains(gone.Buried, r.Host):
		return BuriedHost
	case r.State.OnHost() && !r.Stateful && slices.Contains(gone.Dead, r.Host):
		return DeadHost
	case r.State.Ended() && now.Since(r.EndedAt) >= KeepEnded:
		return Forgotten
	}
	return Tidy
}

// Sweep tidies up among these ids. It returns what it changed, as it is now; a placing that
// left nothing behind is told as released.
func (k Clerk) Sweep(ids []string) []Row {
	var changed []Row
	gone := Gone{Dead(k.books.Leases(), k.books.Now(), k.books.Pulse()), k.books.Buried()}
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if r := k.books.ByID(id); r != nil && k.sweep(r, gone) {
			changed = append(changed, *r)
		}
	}
	return changed
}

func (k Clerk) sweep(r *Row, gone Gone) bool {
	now, was := k.books.Now(), r.State
	switch Look(r, now, k.books.Pulse(), k.lives(r), gone) {
	case Tidy:
		return false
	case LostPlacing:
		if !r.NoRoom(now, false, false, 0) {
			k.drop(r, "removed by the sweep")
			return true
		}
	case OutOfPatience:
		r.GiveUp(now)
	case Overdue:
		r.end(now, Expired, "nothing was heard of it for slot_ttl")
	case DeadHost:
		r.lose(now, "its host is dead")
	case BuriedHost:
		r.lose(now, "its host was buried")
	case Forgotten:
		k.books.Remove(r)
		return true
	}
	k.put(r, was)
	return true
}
