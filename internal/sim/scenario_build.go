package sim

import (
	"fmt"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

func parsePool(w *wording) act {
	id := w.name("a pool")
	w.must("cap")
	l := pool.Limits{Cap: pool.Unlimited, SlotTTL: pool.DefaultSlotTTL, TicketTTL: pool.DefaultTicketTTL}
	if !w.has("none") {
		l.Cap = w.number("the cap")
	}
	l.MaxWaiting = 10 * max(l.Cap, 1)
	for len(w.rest) > 0 {
		switch {
		case w.has("waiting"):
			l.MaxWaiting = w.number("how many may wait")
		case w.has("for"):
			l.Audience = w.name("who boots what it admits")
		case w.has("slots"):
			l.SlotTTL = w.time()
		case w.has("tickets"):
			l.TicketTTL = w.time()
		default:
			w.fail("nobody knows what %q means here", w.rest[0])
		}
	}
	return func(s *stage) error {
		l.Shares = s.limits.Pools[id].Shares
		s.limits.Pools[id] = l
		if l.Audience != "" && s.substrate == nil {
			s.addSubstrate(l.Audience)
			s.substrate.away = true // it lists when it is told to
		}
		return s.configure()
	}
}

func parseShare(w *wording) act {
	id, of := w.name("a pool"), pool.Share{}
	if w.has("priority") {
		of.Priority = w.number("a priority")
	} else {
		of.Consumer = w.name("a consumer")
	}
	for len(w.rest) > 0 {
		switch {
		case w.has("reserved"):
			of.Reserved = w.number("how many slots are reserved")
		case w.has("max"):
			of.Max = w.number("the most that it may hold")
		default:
			w.fail("nobody knows what %q means here", w.rest[0])
		}
	}
	return func(s *stage) error {
		l, ok := s.limits.Pools[id]
		if !ok {
			return fmt.Errorf("there is no pool %q", id)
		}
		l.Shares = append(l.Shares[:len(l.Shares):len(l.Shares)], of)
		s.limits.Pools[id] = l
		return s.configure()
	}
}

func parseCeiling(w *wording) act {
	n := w.number("the ceiling")
	return func(s *stage) error {
		s.ceiling = n
		return s.configure()
	}
}

func parseQuota(w *wording) act {
	tenant := ""
	if len(w.rest) > 1 {
		tenant = w.name("a tenant")
	}
	n := w.number("the quota")
	return func(s *stage) error {
		if tenant == "" {
			s.limits.DefaultQuota = n
		} else {
			s.limits.Quotas[tenant] = n
		}
		return s.configure()
	}
}

// configure puts the limits in force: a copy, since what is in force is never written again.
func (s *stage) configure() error {
	sum := int64(0)
	in := pool.Settings{Pools: map[string]pool.Limits{}, Quotas: map[string]int64{}, DefaultQuota: s.limits.DefaultQuota, Ceiling: s.ceiling}
	for id, l := range s.limits.Pools {
		in.Pools[id] = l
		sum += l.Cap
		if s.ceiling > 0 && l.Cap == pool.Unlimited {
			return fmt.Errorf("pool %s has no cap, under a ceiling of %d", id, s.ceiling)
		}
	}
	for tenant, n := range s.limits.Quotas {
		in.Quotas[tenant] = n
	}
	if !s.Fleet.configure(in) {
		return fmt.Errorf("the caps sum to %d, over the ceiling of %d", sum, s.ceiling)
	}
	return nil
}

func parseClass(w *wording) act {
	id := w.name("a class")
	c := class{name: id, ask: gate.Ask{Class: id, Memory: w.size(), CPUMilli: 500, Rule: gate.DefaultReserveRule()}}
	for len(w.rest) > 0 {
		switch {
		case w.has("floor"):
			c.ask.Rule.Floor = w.size()
		case w.has("fraction"):
			c.ask.Rule.Permille = 10 * w.percent()
		case w.has("stateful"):
			c.ask.Stateful = true
		case w.has("hold-on-exit"):
			c.ask.HoldOnExit = true
		case w.has("priority"):
			c.priority = w.number("a priority")
		case w.has("in"):
			c.pool = w.name("a pool")
		default:
			w.fail("nobody knows what %q means here", w.rest[0])
		}
	}
	return func(s *stage) error {
		c := c
		if c.pool == "" && len(s.limits.Pools) == 1 {
			for only := range s.limits.Pools {
				c.pool = only
			}
		}
		if _, ok := s.limits.Pools[c.pool]; !ok {
			return fmt.Errorf("the class is in no pool: write `in POOL`")
		}
		s.know(c)
		return nil
	}
}

func parseHost(w *wording) act {
	cfg := host.DefaultConfig(w.name("a host"), 16)
	cfg.MaxWaitingStarts = 1 << 10 // memory is what refuses, unless it is said
	size := w.size()
	for len(w.rest) > 0 {
		switch {
		case w.has("committed"):
			cfg.Mode = gate.Committed
		case w.has("headroom"):
			cfg.Headroom = w.size()
		case w.has("starts"):
			cfg.MaxStarts = int(w.number("how many may start at once"))
		default:
			w.fail("nobody knows what %q means here", w.rest[0])
		}
	}
	return func(s *stage) error {
		if s.byID[cfg.ID] != nil {
			return fmt.Errorf("there is a host %s already", cfg.ID)
		}
		a := s.install(cfg, size)
		s.intakes[cfg.ID] = &intake{}
		for _, r := range s.replicas {
			r.table.Register(table.Registration{Host: a.id, Mode: cfg.Mode, MaxAsk: size})
		}
		return nil
	}
}

func parseReplica(w *wording) act {
	ids := w.many("a replica")
	return func(s *stage) error {
		for _, id := range ids {
			if want := fmt.Sprintf("r%d", len(s.replicas)+1); id != want {
				return fmt.Errorf("replicas are named in order: this one is %s", want)
			}
			s.addReplica()
		}
		return nil
	}
}

// host, replica and class find what a line names.
func (s *stage) host(id string) (*agent, error) {
	if a := s.byID[id]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("there is no host %q", id)
}

func (s *stage) replica(id string) (*replica, error) {
	for i, r := range s.replicas {
		if id == fmt.Sprintf("r%d", i+1) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("there is no replica %q", id)
}

func (s *stage) class(id string) (class, error) {
	for _, c := range s.classes {
		if c.name == id {
			return c, nil
		}
	}
	return class{}, fmt.Errorf("there is no class %q", id)
}
