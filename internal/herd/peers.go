package herd

import (
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
)

// The peers know of a host how many slots it has left, as it was a while ago, and what they have
// placed there since. Hosts and sandboxes are all alike here, so that a score by free memory and
// free cores is one by free slots.

// ledger is what was placed on hosts and no report has seen yet.
type ledger struct {
	placed [][]time.Duration // by host: when each reaches it
}

func newLedger(hosts int) *ledger { return &ledger{make([][]time.Duration, hosts)} }

func (l *ledger) pending(h int) int { return len(l.placed[h]) }

func (l *ledger) place(h int, at time.Duration) { l.placed[h] = append(l.placed[h], at) }

// release takes one back that the host has denied.
func (l *ledger) release(h int, at time.Duration) {
	if i := slices.Index(l.placed[h], at); i >= 0 {
		l.placed[h] = slices.Delete(l.placed[h], i, i+1)
	}
}

// seen forgets what a report of then has in it.
func (l *ledger) seen(h int, then time.Duration) {
	l.placed[h] = slices.DeleteFunc(l.placed[h], func(at time.Duration) bool { return at <= then })
}

// scan is the essay's: one pass over the last heartbeats takes the emptiest host by its heartbeat
// on which the ask fits beside what the ledger has there, the first among equals. Each replica
// has a ledger of its own, or all have one. What the host's own gate denies is taken to another.
type scan struct {
	*fleet
	free    []int     // slots, by the last heartbeat
	ledgers []*ledger // by replica
	repicks int       // after a denial: as many as ours
}

func newScan(f *fleet, shared bool) *scan {
	s := &scan{fleet: f, free: make([]int, len(f.hosts)), repicks: admission.DefaultConfig().Repicks}
	for r := range f.replicas {
		if shared && r > 0 {
			s.ledgers = append(s.ledgers, s.ledgers[0])
			continue
		}
		s.ledgers = append(s.ledgers, newLedger(len(f.hosts)))
	}
	for h := range s.free {
		s.free[h] = f.slots
		f.at(f.now+time.Duration(f.rand.Int64N(int64(heartbeat))), func() { s.beat(h) })
	}
	return s
}

// beat is a host's heartbeat, to every replica.
func (s *scan) beat(h int) {
	sent, free := s.now, s.slots-s.hosts[h].held
	s.after(oneWay, func() {
		s.free[h] = free
		for _, l := range s.ledgers {
			l.seen(h, sent)
		}
	})
	s.after(heartbeat, func() { s.beat(h) })
}

func (s *scan) come(r int, c *create) { s.try(r, c, nil) }

func (s *scan) try(r int, c *create, denied []int) {
	l, best := s.ledgers[r], -1
	for h, free := range s.free {
		if free-l.pending(h) >= 1 && (best < 0 || free > s.free[best]) && !slices.Contains(denied, h) {
			best = h
		}
	}
	if best < 0 || len(denied) > s.repicks {
		s.answer(c, false)
		return
	}
	reaches := s.now + oneWay
	l.place(best, reaches)
	s.offer(best, c, func() {}, func(yes bool) {
		if yes {
			s.answer(c, true)
			return
		}
		l.release(best, reaches)
		s.try(r, c, append(denied, best))
	})
}

// best3 is E2B's shape: of the hosts that fit by what was polled and by what this replica placed and
// saw end since, three are drawn and the least loaded is taken. A host that denies is passed over,
// and three are drawn again, until none is left.
type best3 struct {
	*fleet
	sides []polling // by replica
	order []int     // scratch
}

// polling is what a replica knows by its last poll.
type polling struct {
	then time.Duration // when hosts were read
	free []int
	*ledger
}

func newBest3(f *fleet) *best3 {
	b := &best3{fleet: f, order: make([]int, len(f.hosts))}
	for r := range f.replicas {
		b.sides = append(b.sides, polling{free: slices.Repeat([]int{f.slots}, len(f.hosts)), ledger: newLedger(len(f.hosts))})
		f.at(f.now+time.Duration(f.rand.Int64N(int64(polled))), func() { b.poll(r) })
	}
	for h := range b.order {
		b.order[h] = h
	}
	return b
}

// poll asks every host how it stands.
func (b *best3) poll(r int) {
	b.after(oneWay, func() {
		then, free := b.now, make([]int, len(b.hosts))
		for h := range free {
			free[h] = b.slots - b.hosts[h].held
		}
		b.after(oneWay, func() {
			side := &b.sides[r]
			side.then, side.free = then, free
			for h := range free {
				side.seen(h, then)
			}
		})
	})
	b.after(polled, func() { b.poll(r) })
}

// ended takes off what this replica placed itself.
func (p *polling) ended(h int, reached time.Duration) {
	if reached > p.then {
		p.release(h, reached)
	} else {
		p.free[h]++
	}
}

func (b *best3) come(r int, c *create) { b.try(r, c, nil) }

func (b *best3) try(r int, c *create, denied []int) {
	side, best := &b.sides[r], b.draw(r, denied)
	if best < 0 {
		b.answer(c, false)
		return
	}
	reaches := b.now + oneWay
	side.place(best, reaches)
	b.offer(best, c, func() { side.ended(best, reaches) }, func(yes bool) {
		if yes {
			b.answer(c, true)
			return
		}
		side.release(best, reaches)
		b.try(r, c, append(denied, best))
	})
}

// draw takes the least loaded of three that fit as far as is known, -1 if none does.
func (b *best3) draw(r int, denied []int) int {
	side := &b.sides[r]
	best, most, drawn := -1, 0, 0
	for left := len(b.order); left > 0 && drawn < 3; left-- {
		k := b.rand.IntN(left)
		h := b.order[k]
		b.order[k], b.order[left-1] = b.order[left-1], h
		free := side.free[h] - side.pending(h)
		if free < 1 || slices.Contains(denied, h) {
			continue
		}
		if drawn++; free > most {
			best, most = h, free
		}
	}
	return best
}
