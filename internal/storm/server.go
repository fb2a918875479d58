package storm

import (
	"cmp"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// service is the store, the replicas in front of it, and the long polls that they hold.
type service struct {
	world    *world
	store    *pool.Model
	desks    []*hint.Desk // of each replica: what it measured, and whom it refused
	polls    []*poll      // held, by place
	cap      int64
	patience time.Duration // how long a place in the line lasts
	busy     int64
	freed    int64  // when the replicas last looked
	before   func() // is called before a slot is taken or given back
}

const poolName, consumer = "one", "caller"

// The clock of a store is never zero.
const epoch pool.Time = 1 << 40

func newService(w *world, o *Options) *service {
	s := &service{world: w, store: pool.NewModel(), cap: o.Cap, patience: max(control.DefaultQueueAge, o.Deadline)}
	s.store.Configure(pool.Settings{
		Pools: map[string]pool.Limits{poolName: {
			Cap: o.Cap, MaxWaiting: 10 * o.Cap, Audience: "substrate", SlotTTL: 24 * time.Hour, TicketTTL: pool.DefaultTicketTTL,
		}},
		DefaultQuota: pool.Unlimited,
	})
	for range o.Replicas {
		s.desks = append(s.desks, hint.NewDesk(s.clock()))
	}
	return s
}

// clock is that of the replicas, which is never below zero.
func (s *service) clock() time.Duration { return s.world.now + time.Hour }

// look has the replicas count what was freed since they looked, as they do with every pulse.
func (s *service) look() {
	total := s.store.Freed()[poolName]
	for _, d := range s.desks {
		d.Freed(s.clock(), total-s.freed)
	}
	s.freed = total
}

// claim has the store decide.
func (s *service) claim(c *caller, attempt bool, present time.Duration) pool.Claimed {
	s.before()
	s.store.Advance(epoch.Add(s.clock()))
	claimed := s.store.Claim(pool.Claim{
		ID: c.id, Consumer: consumer, Key: c.id, Contents: pool.Contents{Tenant: consumer, Class: "agent", MemoryMB: 4096}, Pool: poolName,
		Mode: c.kind.mode, MaxQueueAge: s.patience, Attempt: attempt, Present: present,
	})
	if claimed.Verdict == pool.Granted {
		s.busy++
	}
	return claimed
}

// release gives a slot back, which is the turn of the first whose poll is held.
func (s *service) release(c *caller) {
	s.before()
	s.store.Advance(epoch.Add(s.clock()))
	s.store.Leave(c.id, pool.Passage{})
	s.busy--
	s.turn(0)
}

// turn goes through the polls that are held, by place, from the first behind a place: each
// tries, until one lacks a slot while none is free.
func (s *service) turn(behind int64) {
	for {
		at, found := slices.BinarySearchFunc(s.polls, behind, byPlace)
		if found {
			at++
		}
		if at == len(s.polls) {
			return
		}
		p := s.polls[at]
		behind = p.place
		if s.try(p) == pool.Queued && s.busy >= s.cap {
			return
		}
	}
}

func byPlace(p *poll, place int64) int { return cmp.Compare(p.place, place) }

// poll is one long poll that is held.
type poll struct {
	caller *caller
	place  int64
	until  time.Duration
	over   bool
	answer func(pool.Claimed)
}

// attempt is a long poll: it tries at once, and then again at its turn, and now and then.
func (s *service) attempt(c *caller, place int64, wait time.Duration, answer func(pool.Claimed)) {
	p := &poll{caller: c, place: place, until: s.world.now + min(wait, control.LongestPoll), answer: answer}
	at, _ := slices.BinarySearchFunc(s.polls, place, byPlace)
	s.polls = slices.Insert(s.polls, at, p)
	if s.try(p) == pool.Queued {
		s.attend(p)
	}
}

// try claims for a poll. It is answered when that is no place in the line, or when its time is over.
func (s *service) try(p *poll) pool.Verdict {
	present := time.Duration(0)
	if p.until > s.world.now {
		present = pool.PresentFor
	}
	got := s.claim(p.caller, true, present)
	if got.Verdict != pool.Queued || present == 0 {
		s.end(p)
		p.answer(got)
	}
	return got.Verdict
}

// end lets a poll go. Whoever is behind it may have its turn.
func (s *service) end(p *poll) {
	p.over = true
	s.polls = slices.DeleteFunc(s.polls, func(o *poll) bool { return o == p })
	if s.busy < s.cap {
		place := p.place
		s.world.after(0, func() { s.turn(place) })
	}
}

// attend says now and then that the poll is held. Where a slot is free it tries, which else
// could only come to the same.
func (s *service) attend(p *poll) {
	s.world.after(min(control.PresentEvery, p.until-s.world.now), func() {
		switch {
		case p.over:
			return
		case s.busy < s.cap || s.world.now >= p.until:
			if s.try(p); p.over {
				return
			}
		default:
			s.store.Advance(epoch.Add(s.clock()))
			s.store.Attend(p.caller.id, pool.PresentFor)
		}
		s.attend(p)
	})
}

// told is in how long the turn of a place comes, and when its caller should be back for that, as any of
// the replicas tells it.
func (s *service) told(position int64) (turn, pollAfter time.Duration) {
	d := s.anyDesk()
	turn = d.Turn(s.clock(), position, s.world.rand.Uint64())
	return turn, d.PollAfter(s.clock(), position, turn, control.LongestPoll)
}

// refused is when a caller without a place should come back, as any of the replicas tells it. Its
// turn is what its receipt carries.
func (s *service) refused(c *caller) time.Duration {
	in, turn := s.anyDesk().Refused(s.clock(), c.turn-s.clock(), s.world.rand.Uint64())
	c.turn = s.clock() + turn
	return in
}

func (s *service) anyDesk() *hint.Desk { return s.desks[s.world.rand.IntN(len(s.desks))] }
