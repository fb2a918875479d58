package table

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Eligible says whether a host may be asked to take an ask: it was heard, its intake is open,
// and it could hold the ask if nothing else were there. What it can promise now does not
// count: for the waiter that it sets memory aside for, that is more than it says.
func (t *Table) Eligible(host string, a *gate.Ask, now time.Duration) bool {
	t.advance(now)
	i, known := t.byID[host]
	return known && t.mayStand(i, a)
}

func (t *Table) mayStand(i int32, a *gate.Ask) bool {
	return t.hosts[i].standing == Candidate && t.couldTake(i, a)
}

// PickStand returns the host that should set memory aside for a waiter whose ask fits nowhere
// now: where it does so already, if that is still eligible, or else, among the eligible ones
// that do so for nobody, the one with the most room, at random among equals. It reads every
// host, and allocates nothing.
func (t *Table) PickStand(a *gate.Ask, prefer string, now time.Duration) (host string, ok bool) {
	if t.Eligible(prefer, a, now) {
		return prefer, true
	}
	best, equals, q := none, 0, query{rand: uint64(now)}
	for i := range t.hosts {
		h := &t.hosts[i]
		if !h.live() || t.rests[i].setAside || !t.mayStand(int32(i), a) {
			continue
		}
		switch {
		case best == none || h.room() > t.hosts[best].room():
			best, equals = int32(i), 1
		case h.room() == t.hosts[best].room():
			if equals++; q.below(equals) == 0 {
				best = int32(i)
			}
		}
	}
	if best == none {
		return "", false
	}
	return t.hosts[best].id, true
}
