package sim

// Caught is what stopped a hunt. A zero Invariant says that nothing did.
type Caught struct {
	Seed      uint64 `json:"seed"`
	Events    int64  `json:"events"` // of all seeds until then
	Invariant int    `json:"invariant"`
	What      string `json:"what"`
}

// Hunt plays seeds one after the other until an invariant does not hold.
func Hunt(first, seeds uint64) Caught {
	var events int64
	for seed := first; seed < first+seeds; seed++ {
		r := Play(NewPlan(seed, Size{}), nil)
		events += r.Events
		if len(r.Violations) > 0 {
			v := r.Violations[0]
			return Caught{Seed: seed, Events: events, Invariant: int(v.Invariant), What: v.String()}
		}
	}
	return Caught{Events: events}
}
