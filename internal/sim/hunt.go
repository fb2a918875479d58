package sim

import "time"

// Hunt is a search for a violation through many seeds, perhaps only among small fleets, or
// under certain faults alone.
type Hunt struct {
	First  uint64 `json:"first"`
	Seeds  uint64 `json:"seeds"`
	Hosts  int    `json:"hosts,omitempty"`
	Faults []Kind `json:"faults,omitempty"` // by turns; none: each seed draws its own
	Few    int    `json:"few,omitempty"`    // at most so many; zero: as many as it draws
}

// Caught is what stopped a hunt. A zero Invariant says that nothing did.
type Caught struct {
	Seed      uint64 `json:"seed"`
	Events    int64  `json:"events"` // of all seeds until then
	Invariant int    `json:"invariant"`
	What      string `json:"what"`
}

// Run plays seeds one after the other until an invariant does not hold.
func (h Hunt) Run() Caught {
	var events int64
	for seed := h.First; seed < h.First+h.Seeds; seed++ {
		r := Play(h.plan(seed), nil)
		events += r.Events
		if len(r.Violations) > 0 {
			v := r.Violations[0]
			return Caught{Seed: seed, Events: events, Invariant: int(v.Invariant), What: v.String()}
		}
	}
	return Caught{Events: events}
}

func (h Hunt) plan(seed uint64) Plan {
	p := NewPlan(seed, Size{Hosts: h.Hosts})
	if len(h.Faults) == 0 {
		return p
	}
	if h.Few > 0 {
		p.Episodes = p.Episodes[:min(h.Few, len(p.Episodes))]
	}
	for i := range p.Episodes {
		e := &p.Episodes[i]
		e.Kind = h.Faults[i%len(h.Faults)]
		e.For, e.Arg = longest(e.Kind)*time.Duration(i+1)/time.Duration(len(p.Episodes)), 1+e.Who%20
	}
	p.stretch()
	return p
}

// longest is the most time that a kind of fault takes.
func longest(kind Kind) time.Duration {
	for _, k := range kinds {
		if k.kind == kind {
			return k.longest
		}
	}
	panic("sim: nobody knows the fault " + string(kind))
}
