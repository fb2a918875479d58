package sim

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// This file is about pools without hosts in scenarios, and about operators.

// redeemAt boots with a ticket at the substrate that demands it.
func (p *party) redeemAt(t placed, as string, lasts time.Duration) {
	s := p.stage
	p.boot = "unanswered"
	s.substrate.boot(t.text, use{good: forever, lasts: lasts, as: as, told: func(v pool.RedeemVerdict) {
		p.boot = "refused " + string(v)
		if v == pool.Redeemed {
			p.boot = "booted"
		}
	}})
}

func parseKeep(w *wording) act {
	keys, at := w.keys(), w.replicas("every")
	w.must("every")
	every := w.time()
	if every <= 0 && w.err == nil {
		w.fail("every must be above zero")
	}
	return func(s *stage) error {
		return s.each(keys, at, func(key string, r *replica) error {
			p, err := s.known(key)
			if err == nil {
				p.kept++
				p.keepUp(r, every, p.kept)
			}
			return err
		})
	}
}

// keepUp sends heartbeats until its caller dies, or keeps anew.
func (p *party) keepUp(r *replica, every time.Duration, turn int) {
	p.stage.after(every, func() {
		if p.kept != turn {
			return
		}
		if r.up {
			p.beat(r)
		}
		p.keepUp(r, every, turn)
	})
}

func parseDie(w *wording) act {
	keys := w.keys()
	return func(s *stage) error {
		return s.each(keys, nil, func(key string, _ *replica) error {
			p, err := s.known(key)
			if err == nil {
				p.kept++
				p.call++
			}
			return err
		})
	}
}

// parseList has the substrate say what it runs.
func parseList(w *wording) act {
	id := w.name("a substrate")
	return func(s *stage) error {
		if s.substrate == nil || s.substrate.name != id {
			return fmt.Errorf("there is no substrate %q", id)
		}
		var refs []pool.Ref
		for _, ref := range sortedRefs(s.substrate.running) {
			refs = append(refs, pool.Ref(ref))
		}
		s.substrate.list(refs)
		return nil
	}
}

func parseSet(w *wording) act {
	id := w.name("a pool")
	w.must("cap")
	n, lasts := w.number("the cap"), time.Duration(0)
	if w.has("for") {
		lasts = w.time()
	}
	refused := w.has("is refused")
	return operated(id, refused, func(s *stage) { s.overridden(id, &pool.Override{Cap: n, By: "operator", Reason: "scenario"}, lasts) })
}

func parseHold(w *wording) act {
	id := w.name("a pool")
	return operated(id, false, func(s *stage) { s.overridden(id, &pool.Override{By: "operator", Reason: "scenario"}, 0) })
}

func parseResume(w *wording) act {
	id := w.name("a pool")
	return operated(id, w.has("is refused"), func(s *stage) { s.overridden(id, nil, 0) })
}

// operated is an operator's deed, which is done or refused.
func operated(id string, refused bool, do func(*stage)) act {
	return func(s *stage) error {
		if _, ok := s.limits.Pools[id]; !ok {
			return fmt.Errorf("there is no pool %q", id)
		}
		s.model().Advance(s.store.time())
		do(s)
		if got := s.operator.last == pool.OverrideCeiling; got != refused {
			return fmt.Errorf("expected that it is refused: %t, and it was %s", refused, s.operator.last)
		}
		return nil
	}
}
