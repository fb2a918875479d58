package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// substrate boots what a pool without hosts admits. It is no machine of ours: it demands a
// ticket and redeems it at any replica before it boots anything, and can list what it runs.
type substrate struct {
	fleet   *Fleet
	name    string
	keys    ticket.AudienceKeys
	running map[host.Ref]string // placement -> instance
	strange map[host.Ref]int    // placement -> how often it was said to be out of the gate
	serial  int
	away    bool // nobody lists
}

func (f *Fleet) addSubstrate(name string) {
	f.substrate = &substrate{fleet: f, name: name, running: map[host.Ref]string{}, strange: map[host.Ref]int{}}
	f.substrate.keys, _ = f.ring.Audience(ticket.ForSubstrate(name))
	f.after(f.between(0, listEvery), f.substrate.listOften)
}

const (
	listEvery    = 7 * time.Second
	redeemAgain  = 300 * time.Millisecond
	redeemTries  = 4
	strangeUntil = 2 // listings in a row, and it is stopped
)

// use is what somebody makes of a ticket.
type use struct {
	good  time.Duration // it is, until then
	lasts time.Duration
	as    string                   // what it calls the instance; empty: a new name
	told  func(pool.RedeemVerdict) // nil: nobody asks
}

// boot is somebody with a ticket: verify, redeem, run.
func (s *substrate) boot(text ticket.Text, u use) {
	claims, err := s.keys.Verify(text, ticket.Expect{Audience: ticket.ForSubstrate(s.name)})
	if err != nil {
		if s.fleet.now <= u.good { // a root is dropped when no ticket of it is good any more
			s.fleet.violate(boots, "the substrate %s refused a ticket that was minted for it: %v", s.name, err)
		}
		return
	}
	s.serial++
	d := pool.Redemption{
		ID: claims.AdmissionID, Epoch: claims.Epoch, Audience: s.name, Expires: pool.Time(claims.Expires.UnixMilli()),
		Instance: cmp.Or(u.as, fmt.Sprintf("i%d", s.serial)),
	}
	u.as = d.Instance
	switch f := s.fleet; {
	case f.rough && f.chance(2):
		d.Audience = "elsewhere" // a ticket that was carried to another substrate
	case f.rough && f.chance(3):
		d.Instance = "" // one that gives no name to what it boots
	}
	s.redeem(d, u, redeemTries)
}

// redeem asks a replica, and another one when no answer comes.
func (s *substrate) redeem(d pool.Redemption, u use, tries int) {
	f := s.fleet
	again := func() {
		if tries > 1 {
			f.after(redeemAgain, func() { s.redeem(d, u, tries-1) })
		}
	}
	r := f.anyReplica()
	if !r.up {
		again()
		return
	}
	r.awake(r.life, func() {
		var got pool.RedeemVerdict
		r.transact(writeRedeem, func() { got = f.redeem(d); f.store.touched(d.ID) }, func(failed bool) {
			if failed || (f.rough && f.chance(4)) { // or its answer is lost
				again()
				return
			}
			if got == pool.Redeemed {
				s.start(host.Ref{ID: d.ID, Epoch: d.Epoch}, u.as, u.lasts)
			}
			if u.told != nil {
				u.told(got)
			}
		})
	})
}

// start runs what was redeemed, once.
func (s *substrate) start(ref host.Ref, instance string, lasts time.Duration) {
	f := s.fleet
	if other := s.running[ref]; other != "" && other != instance {
		f.violate(boots, "%s/%d runs as %s, and boots as %s", ref.ID, ref.Epoch, other, instance)
	}
	f.result.Boots++
	f.fact(factBoot, ref.ID, ref.Epoch)
	f.tell("%s/%d boots as %s", ref.ID, ref.Epoch, instance)
	s.running[ref] = instance
	f.after(lasts, func() { s.stop(ref, instance) })
}

func (s *substrate) stop(ref host.Ref, instance string) {
	if s.running[ref] == instance {
		delete(s.running, ref)
		delete(s.strange, ref)
	}
}

// listOften tells a replica what runs, more or less: a list may be late, or miss something,
// or name what nobody admitted.
func (s *substrate) listOften() {
	f := s.fleet
	if !s.away {
		var refs []pool.Ref
		for _, ref := range sortedRefs(s.running) {
			if !f.rough || !f.chance(5) {
				refs = append(refs, pool.Ref(ref))
			}
		}
		if f.rough {
			refs = s.embellish(refs)
		}
		late := time.Duration(0)
		if f.rough && f.chance(5) {
			late = f.between(time.Second, time.Minute)
		}
		f.after(late, func() { s.list(refs) })
	}
	f.after(f.between(listEvery/2, listEvery), s.listOften)
}

// embellish adds what nobody admitted: another epoch, and a name that nobody knows.
func (s *substrate) embellish(refs []pool.Ref) []pool.Ref {
	if s.fleet.chance(10) && len(refs) > 0 {
		some := refs[s.fleet.rand.IntN(len(refs))]
		refs = append(refs, pool.Ref{ID: some.ID, Epoch: some.Epoch - 1}, pool.Ref{ID: some.ID, Epoch: some.Epoch + 1})
	}
	if s.fleet.chance(5) {
		refs = append(refs, pool.Ref{ID: "stray", Epoch: 1})
	}
	return refs
}

func (s *substrate) list(refs []pool.Ref) {
	r := s.fleet.anyReplica()
	if !r.up {
		return
	}
	r.awake(r.life, func() {
		var have []bool
		r.transact(writeSeen, func() { have = s.fleet.list(refs) }, func(failed bool) {
			if failed {
				return
			}
			for i, ref := range refs {
				s.listed(host.Ref(ref), have[i])
			}
		})
	})
}

// listed stops what is out of the gate again and again.
func (s *substrate) listed(ref host.Ref, has bool) {
	instance, runs := s.running[ref]
	switch {
	case !runs:
	case has:
		delete(s.strange, ref)
	default:
		if s.strange[ref]++; s.strange[ref] >= strangeUntil {
			s.stop(ref, instance)
		}
	}
}

func sortedRefs[V any](m map[host.Ref]V) []host.Ref {
	return slices.SortedFunc(maps.Keys(m), func(a, b host.Ref) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Epoch, b.Epoch))
	})
}

// anyReplica is one of them, up or not.
func (f *Fleet) anyReplica() *replica { return f.replicas[f.rand.IntN(len(f.replicas))] }

// useSlot boots what was admitted without a host, and keeps it by heartbeats until it gives
// it back, or dies without a word.
func (c *caller) useSlot(r *replica, row pool.Row) {
	f := c.fleet
	text, ok := r.mint(row)
	if !ok {
		f.violate(boots, "no ticket can be minted for the audience %q", row.Audience)
		return
	}
	lasts, good := f.between(time.Second, longestLife), f.now+row.ReservedUntil.Since(f.model().Now())
	if !f.chance(8) {
		f.after(f.between(time.Millisecond, 3*time.Second), func() { f.substrate.boot(text, use{good: good, lasts: lasts}) })
	}
	if f.rough && f.chance(15) { // a copy, or one that comes late
		f.after(f.between(time.Millisecond, 3*time.Minute), func() { f.substrate.boot(text, use{good: good, lasts: time.Second}) })
	}
	end := f.now + lasts
	if f.chance(25) {
		end = f.now + f.between(0, lasts) // and no word after that
	} else {
		f.after(lasts, func() { c.leave(row.ID, row.Epoch) })
	}
	c.keep(row, end)
}

// keep is the heartbeat of a slot without a host: every third of the time that it lives for.
func (c *caller) keep(row pool.Row, until time.Duration) {
	f := c.fleet
	every := f.store.loads.caps.settings.Pools[row.Pool].SlotTTL / 3
	f.after(f.between(every/2, every), func() {
		if f.now >= until {
			return
		}
		if !f.mute {
			c.heartbeat(row.ID, nil)
		}
		c.keep(row, until)
	})
}
