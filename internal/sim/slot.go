package sim

import (
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// slot is what an onlooker knows of an admission that no host answers for: until when it
// lives by what was heard of it, and what became of its ticket.
type slot struct {
	epoch    int64
	audience string
	until    pool.Time // it lives that long unless it is heard of
	ticket   pool.Time // its ticket is good that long unless it is heard of
	running  bool
	instance string // what it was redeemed for
	left     bool   // its caller gave it back
}

func (f *Fleet) newSlot(row *pool.Row) *slot {
	now, l := f.model().Now(), f.store.loads.caps.settings.Pools[row.Pool]
	return &slot{epoch: row.Epoch, audience: row.Audience, until: now.Add(l.SlotTTL), ticket: now.Add(l.TicketTTL)}
}

// heard notes that a slot was heard of.
func (s *slot) heard(now pool.Time, l pool.Limits) {
	s.until = max(s.until, now.Add(l.SlotTTL))
	if !s.running {
		s.ticket = max(s.ticket, now.Add(l.TicketTTL))
	}
}

// slotOf is the living slot of a placement, nil for none.
func (f *Fleet) slotOf(id string, epoch int64) *slot {
	if s := f.book.slots[id]; s != nil && s.epoch == epoch {
		return s
	}
	return nil
}

func (f *Fleet) limitsOf(id string) pool.Limits {
	return f.store.loads.caps.settings.Pools[f.store.loads.seen[id].Pool]
}

// hear takes a caller's heartbeat, and proves that it kept what lives, and nothing else.
func (f *Fleet) hear(id string, epoch int64) (pool.Row, bool) {
	s := f.slotOf(id, epoch)
	row, ok := f.model().Hear(id, epoch)
	switch {
	case ok && s == nil:
		f.violate(boots, "a heartbeat kept %s/%d, which has no slot", id, epoch)
	case !ok && s != nil:
		f.violate(whole, "a heartbeat did not keep %s/%d, which lives", id, epoch)
	case ok:
		s.heard(f.model().Now(), f.limitsOf(id))
		f.checkTicket(s, &row)
	}
	return row, ok
}

// checkTicket proves that a ticket which is minted of a row now is good for as long as it should be.
func (f *Fleet) checkTicket(s *slot, row *pool.Row) {
	switch by := row.ReservedUntil.Since(s.ticket); {
	case by > 0:
		f.violate(ends, "a ticket of %s/%d is good for %v longer than tickets are", row.ID, row.Epoch, by)
	case by < 0:
		f.violate(whole, "a ticket of %s/%d is good for %v less than what was heard of it makes it", row.ID, row.Epoch, -by)
	}
}

// redeem closes a ticket, and proves that it was good, and that a good one is taken.
func (f *Fleet) redeem(d pool.Redemption) pool.RedeemVerdict {
	s, now := f.slotOf(d.ID, d.Epoch), f.model().Now()
	got, _ := f.model().Redeem(d)
	f.fact(factRedeem, d.ID, d.Epoch)
	why := s.refuses(d, now)
	switch {
	case got == pool.Redeemed && why != "":
		f.violate(boots, "the ticket of %s/%d was redeemed for %s: %s", d.ID, d.Epoch, d.Instance, why)
	case got != pool.Redeemed && why == "":
		f.violate(whole, "the ticket of %s/%d was not redeemed for %s, which may have it: %s", d.ID, d.Epoch, d.Instance, got)
	case got == pool.Redeemed && !s.running:
		s.running, s.instance = true, d.Instance
		s.heard(now, f.limitsOf(d.ID))
	}
	return got
}

// refuses says why a redemption must come to nothing, "" when it must not.
func (s *slot) refuses(d pool.Redemption, now pool.Time) string {
	switch {
	case s == nil:
		return "it has no slot under that epoch any more"
	case s.audience != d.Audience:
		return "it is for another audience"
	case s.running && d.Instance != "" && d.Instance == s.instance:
		return ""
	case s.running:
		return "it was redeemed before"
	case now > min(d.Expires, s.ticket).Add(pool.Skew):
		return "it has expired"
	}
	return ""
}

// list takes the word of whoever lists what runs, and proves what it is told of each.
func (f *Fleet) list(refs []pool.Ref) []bool {
	have := f.model().Seen(refs)
	for i, ref := range refs {
		s := f.slotOf(ref.ID, ref.Epoch)
		switch {
		case have[i] && s == nil:
			f.violate(boots, "%s/%d runs, and is said to have a slot, which it has not", ref.ID, ref.Epoch)
		case !have[i] && s != nil:
			f.violate(whole, "%s/%d runs, and is said to be out of the gate, and has a slot", ref.ID, ref.Epoch)
		case have[i]:
			s.heard(f.model().Now(), f.limitsOf(ref.ID))
			s.running = true
		}
		f.store.touched(ref.ID)
	}
	return have
}

// leave notes that a caller gives something back, and proves that it still is what was read.
func (f *Fleet) leave(m *pool.Model, read pool.Row, of pool.Passage) (pool.Row, bool) {
	old := f.store.loads.seen[read.ID]
	row, ok := m.Leave(read.ID, of)
	if !ok {
		return row, ok
	}
	if old.Gen != read.Gen || old.QueuedAt != read.QueuedAt {
		f.violate(whole, "%s was read as %s/%d, and is released as %s/%d, which came later", read.ID, read.State, read.Gen, old.State, old.Gen)
	}
	if s := f.slotOf(read.ID, old.Epoch); s != nil {
		s.left = true
	}
	if onHost(old.State) || old.State == pool.Lost {
		f.book.left[read.ID] = old.Epoch
	}
	return row, ok
}

// checkSlot proves that a slot without a host ends when its caller gives it back, or when
// nothing was heard of it although somebody could hear.
func (f *Fleet) checkSlot(row pool.Row) {
	s := f.book.slots[row.ID]
	if s == nil || (onHost(row.State) && row.Epoch == s.epoch) {
		return
	}
	ttl, now := f.limitsOf(row.ID).SlotTTL, f.model().Now()
	switch {
	case s.left:
	case row.State != pool.Expired || row.Epoch != s.epoch:
		f.violate(whole, "%s/%d had a slot, and is %s/%d, and nobody gave it back", row.ID, s.epoch, row.State, row.Epoch)
	case now < s.until:
		f.violate(whole, "%s/%d is over, and was heard of %v ago", row.ID, s.epoch, ttl-s.until.Since(now))
	case f.heardFor() < ttl:
		f.violate(whole, "%s/%d is over by a silence, and somebody can hear for no more than %v", row.ID, s.epoch, f.heardFor())
	}
	delete(f.book.slots, row.ID)
}

// checkOverdue proves, after a sweep, that nothing lives on of which nobody has heard for so long.
func (f *Fleet) checkOverdue() {
	now := f.model().Now()
	for _, id := range sortedKeys(f.book.slots) {
		s, ttl := f.book.slots[id], f.limitsOf(id).SlotTTL
		if now >= s.until && f.heardFor() >= ttl {
			f.violate(ends, "%s/%d has a slot, and nothing was heard of it for %v longer than it lives", id, s.epoch, now.Since(s.until))
		}
	}
}

// pulse is what an onlooker knows of who could hear: when the last replica said so, and since
// when one has said so without an outage between.
type pulse struct{ last, since pool.Time }

// beat notes that a replica said so; gap is how long nobody may have said anything until it
// was an outage.
func (p *pulse) beat(now pool.Time, gap time.Duration) {
	if now.Since(p.last) > gap {
		p.since = now
	}
	p.last = now
}

// heardFor is for how long somebody could hear, until now.
func (f *Fleet) heardFor() time.Duration {
	now, p := f.model().Now(), &f.book.pulse
	if now.Since(p.last) > f.gap() {
		return 0
	}
	return now.Since(p.since)
}

// gap is a third of the shortest life of a slot that must be heard of, 30 s at most.
func (f *Fleet) gap() time.Duration {
	gap := 30 * time.Second
	for _, l := range f.store.loads.caps.settings.Pools {
		if l.Audience != "" {
			gap = min(gap, l.SlotTTL/3)
		}
	}
	return gap
}
