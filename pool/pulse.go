package pool

import (
	"cmp"
	"slices"
	"time"
)

// Pulse is what replicas write so that everybody knows that somebody could hear: nothing is
// dead or over by a silence that nobody could have broken.
type Pulse struct {
	At         Time          // last written
	HeardSince Time          // when it began to be written without a gap
	HostsSince Time          // since when no more than half of the hosts were silent together
	Gap        time.Duration // one longer than that was an outage, see GapFor; zero: PulseGap
}

// The times of the pulse and of hosts.
const (
	PulseEvery = 5 * time.Second
	PulseGap   = 30 * time.Second // one longer than that was an outage in any case
	HostSilent = 30 * time.Second // a host that was not heard for so long is silent
	HostTTL    = 5 * time.Minute  // and for so long, dead
	HostLeft   = time.Hour        // and for so long, with nothing in the store that lives there: it says nothing of the others
	RenewAfter = 10 * time.Second // a lease is not written anew before: of several replicas that heard, one writes
)

// GapFor is the longest silence of all replicas that is no outage, where the shortest life of
// a slot without a host is this; zero: there are none. Callers keep a slot every third of its
// life, so that a silence of one more third takes it from nobody: the last third is left to
// be heard in. Of 10 minutes that would be more than PulseGap; of 6 seconds it is 2.
func GapFor(shortestLife time.Duration) time.Duration {
	if shortestLife == 0 {
		return PulseGap
	}
	return min(shortestLife/3, PulseGap)
}

// PulseFor is how often the pulse is written, so that one that is lost makes no gap.
func PulseFor(gap time.Duration) time.Duration { return min(gap/2, PulseEvery) }

// beat writes the pulse. A clock that was set back makes a gap as well.
func (p Pulse) beat(now Time) Pulse {
	most := cmp.Or(p.Gap, PulseGap)
	if gap := now.Since(p.At); gap > most || gap < -most {
		p.HeardSince = now
	}
	p.At = now
	return p
}

// heardFor says whether somebody could hear for that long without a gap, until now.
func (p Pulse) heardFor(now Time, d time.Duration) bool {
	p = p.beat(now)
	return now.Since(p.HeardSince) >= d
}

// beatHosts looks at how many hosts are silent. When they are more than half, it is the hearing
// that failed. It is judged by silence and not by death: leases end one after the other, and
// begin again one after the other, though all fell silent together.
func (p Pulse) beatHosts(silent, of int, now Time) Pulse {
	if 2*silent > of {
		p.HostsSince = now
	}
	return p
}

// Lease is when a host was last heard, and whether the store has something there that lives.
type Lease struct {
	HeardAt Time
	Holds   bool // need not be known of one that was heard since LeftBefore
}

// MarkHolding says of an admission's host that something lives there, if something does.
func MarkHolding(leases map[string]Lease, r *Row) {
	if l, ok := leases[r.Host]; ok && r.State.OnHost() {
		l.Holds = true
		leases[r.Host] = l
	}
}

// LeftBefore is the instant at or before which a host was last heard that has left, if nothing
// in the store lives there; negative while none has. Such a host is not counted: who was shut
// down long ago without being buried says nothing of whether the others can be heard. What is
// counted otherwise is no more than its silence, and where most were shut down so, none of the
// rest could ever die. A silence that nobody could have broken is none.
func (p Pulse) LeftBefore(now Time) Time {
	if !p.heardFor(now, HostLeft) {
		return -1
	}
	return now.Add(-HostLeft)
}

// Silent counts the hosts that were not heard lately, of all that have not left.
func (p Pulse) Silent(leases map[string]Lease, now Time) (silent, of int) {
	left := p.LeftBefore(now)
	for _, l := range leases {
		if l.HeardAt <= left && !l.Holds {
			continue
		}
		if of++; now.Since(l.HeardAt) >= HostSilent {
			silent++
		}
	}
	return silent, of
}

// Renews says whether a host that is heard now has its lease written anew.
func Renews(lease, now Time) bool { return now.Since(lease) >= RenewAfter }

// Pulse writes that somebody hears.
func (k Clerk) Pulse() Pulse {
	now := k.books.Now()
	silent, of := k.books.Silent()
	p := k.books.Pulse().beat(now).beatHosts(silent, of, now)
	k.books.PutPulse(p)
	return p
}

// Deaf says that more than half of the hosts were silent when the pulse was written last.
func (p Pulse) Deaf() bool { return p.At > 0 && p.HostsSince == p.At }

// Dead returns the hosts whose lease is over, by name. None is dead before somebody could hear,
// and half of the hosts were heard, for as long as a lease lasts.
func Dead(leases map[string]Lease, now Time, p Pulse) []string {
	silent, of := p.Silent(leases, now)
	p = p.beatHosts(silent, of, now)
	if !p.heardFor(now, HostTTL) || now.Since(p.HostsSince) < HostTTL {
		return nil
	}
	var dead []string
	for name, l := range leases {
		if now.Since(l.HeardAt) >= HostTTL {
			dead = append(dead, name)
		}
	}
	slices.Sort(dead)
	return dead
}
