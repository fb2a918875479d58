package pool

import "github.com/plimsoll-project/plimsoll/digest"

// Holding sums up what the store has on one host.
type Holding struct {
	Admitted  digest.Sum
	Running   digest.Sum
	Releasing digest.Sum
}

// In is the sum that an admission in this state belongs to; nil: no host answers for it.
func (h *Holding) In(s State) *digest.Sum {
	switch s {
	case Admitted:
		return &h.Admitted
	case Running:
		return &h.Running
	case Releasing:
		return &h.Releasing
	}
	return nil
}

// Holdings sums up what the store has on each host that it has anything on.
func (m *Model) Holdings() map[string]Holding {
	out := map[string]Holding{}
	for host, rows := range m.OnHosts() {
		if host == "" { // of pools without hosts
			continue
		}
		var h Holding
		for i := range rows {
			h.In(rows[i].State).Add(rows[i].Epoch, +1)
		}
		out[host] = h
	}
	return out
}
