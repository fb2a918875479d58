package host

import "github.com/plimsoll-project/plimsoll/gate"

// The sums over sandboxes change only here, in charge, discharge and see, so that
// CheckInvariants can prove them against the set.

// charge begins to count a sandbox.
func (h *Host) charge(s *Sandbox) {
	h.sandboxes[s.ID] = s
	h.count(s, +1)
	if s.Phase == Starting {
		h.starting++
	}
	h.add(s)
}

// discharge ends that. Nothing of the sandbox may be used afterwards.
func (h *Host) discharge(s *Sandbox) {
	delete(h.sandboxes, s.ID)
	h.count(s, -1)
	h.subtract(s)
	h.meter.leave(s)
	*s = Sandbox{}
	h.spare = append(h.spare, s)
}

// blank returns a sandbox to be filled, an ended one if there is any.
func (h *Host) blank() *Sandbox {
	last := len(h.spare) - 1
	if last < 0 {
		return &Sandbox{}
	}
	s := h.spare[last]
	h.spare = h.spare[:last]
	return s
}

// count adds what a sandbox takes beside memory to the sums, or takes it out again.
func (h *Host) count(s *Sandbox, sign int64) {
	h.digest(s, sign)
	h.cpu += s.Ask.CPUMilli * sign
	h.countDims(s, sign)
}

func (h *Host) countDims(s *Sandbox, sign int64) {
	for i := range h.dims {
		takes, holds := s.takes(h.cfg.Dims[i].Name)
		h.dims[i] += takes * sign
		h.holds[i] += holds * sign
	}
}

// takes is what a sandbox counts for in a dimension, and what of that it was seen to hold.
func (s *Sandbox) takes(name string) (takes, holds int64) {
	for _, d := range s.Holds {
		if d.Name == name {
			holds = d.N
		}
	}
	return max(s.Ask.Takes(name), holds), holds
}

// see takes over what a sample saw of a sandbox.
func (h *Host) see(s *Sandbox, r Resident) {
	h.subtract(s)
	s.Usage = gate.Usage{Resident: r.Bytes, Settled: h.settled(s)}
	s.Swapped, s.FileCache = r.Swapped, r.FileCache
	h.refaults += max(r.Refaults-s.refaults, 0)
	s.refaults = r.Refaults
	h.seeWork(s, &r)
	h.add(s)
	if len(r.Dims) > 0 || len(s.Holds) > 0 {
		h.countDims(s, -1)
		s.Holds = r.Dims
		h.countDims(s, +1)
	}
	h.watch(s, r.Bytes)
}

func (h *Host) settled(s *Sandbox) bool {
	return s.Phase == Running && h.now-s.Tracked >= s.Ask.Rule.SettleAfter
}

func (h *Host) add(s *Sandbox) {
	s.unresident = gate.Charge(s.Ask, h.cfg.Mode, s.Usage).Sub(s.Usage.Resident).Positive()
	s.other = gate.Charge(s.Ask, h.cfg.Mode.Other(), s.Usage).Sub(s.Usage.Resident).Positive()
	h.unresident += s.unresident
	h.other += s.other
	h.resident += s.Usage.Resident
}

func (h *Host) subtract(s *Sandbox) {
	h.unresident -= s.unresident
	h.other -= s.other
	h.resident -= s.Usage.Resident
}

// Charge is what a sandbox counts for on this host now.
func (h *Host) Charge(s *Sandbox) gate.Bytes { return gate.Charge(s.Ask, h.cfg.Mode, s.Usage) }
