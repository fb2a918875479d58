package control

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// showTally says what a host counted in the units of the wire.
func showTally(t *host.Tally, wouldOffer gate.Bytes) *api.HostTally {
	out := &api.HostTally{
		ForMS: t.For.Milliseconds(), Admitted: t.Admitted, Refused: api.RefusedHere{}, ShutMS: t.Shut.Milliseconds(),
		Evicted: t.Evicted, WouldEvict: t.WouldEvict, Killed: t.Killed,
		WouldAdmit: t.WouldAdmit, WouldRefuse: t.WouldRefuse, WouldOfferMB: wouldOffer.FloorMiB(),
	}
	for _, r := range t.Refused {
		out.Refused[string(r.Denial)] = r.N
	}
	if t.Weighed > 0 {
		out.Mean = &api.HostLoad{
			ForMS: t.Weighed.Milliseconds(), Sandboxes: float64(t.Mean.SandboxesMilli) / 1000,
			PromisedMB: t.Mean.Promised.CeilMiB(), ResidentMB: t.Mean.Resident.CeilMiB(), CommittedMB: t.Mean.Committed.CeilMiB(),
			AdmittableMB: t.Mean.Admittable.FloorMiB(), WouldOfferMB: t.Mean.WouldOffer.FloorMiB(),
		}
		ratio(out.Mean)
	}
	return out
}

func ratio(l *api.HostLoad) {
	if l.CommittedMB > 0 {
		part := float64(l.ResidentMB) / float64(l.CommittedMB)
		l.ResidentRatio = &part
	}
}

// CompareModes is GET /v1/modes: the hosts that are in one mode beside those in the other.
func (g *Gateway) CompareModes(ctx context.Context) (api.ModeComparison, error) {
	list, err := g.Hosts(ctx)
	if err != nil {
		return api.ModeComparison{}, err
	}
	out := api.ModeComparison{Sides: []api.ModeSide{}}
	for _, mode := range []gate.Mode{gate.Committed, gate.WorkingSet} {
		s := newSide(mode)
		for i := range list.Hosts {
			if h := &list.Hosts[i]; h.State != api.HostStateBuried && string(h.Mode) == mode.String() {
				s.add(h)
			}
		}
		s.side.WouldPlace = g.passed[mode].Load()
		if s.side.Hosts+s.side.NotHeard > 0 {
			out.Sides = append(out.Sides, s.shown())
		}
	}
	return out, nil
}

// passed counts by mode the creates that this replica refused for want of a host, and for which a
// host in that mode would have had room in the other one.
type passed [2]atomic.Int64

// passOver counts a refusal for which there was no room at these hosts.
func (g *Gateway) passOver(full []string, ask *gate.Ask) {
	var would [len(g.passed)]bool
	g.mu.Lock()
	for _, id := range full {
		a := g.hosts[id]
		if a == nil || int(a.verdict.Mode) >= len(would) {
			continue
		}
		v := &a.verdict
		would[v.Mode] = would[v.Mode] || gate.Fits(v.WouldOffer, ask.NeedOn(v.Mode.Other()))
	}
	g.mu.Unlock()
	for mode, yes := range would {
		if yes {
			g.passed[mode].Add(1)
		}
	}
}

// side adds up the hosts that are in one mode.
type side struct {
	side      api.ModeSide
	now, mean sumOfLoads
}

// mostNames bounds how many hosts of a side are named.
const mostNames = 10

func newSide(m gate.Mode) *side {
	return &side{side: api.ModeSide{
		Mode: api.ChargeMode(m.String()), Other: api.ChargeMode(m.Other().String()), Names: []string{},
		Refused: api.RefusedHere{}, WouldBeRefused: api.WouldRefuse{}, LeastMS: math.MaxInt64,
	}}
}

// add takes a host in. One that did not answer, and one whose agent is older than tallies, is only
// counted: what it holds now says nothing without what it has counted.
func (s *side) add(h *api.Host) {
	o := &s.side
	if h.LastWord || h.Tally == nil {
		o.NotHeard++
		return
	}
	o.Hosts++
	if len(o.Names) < mostNames {
		o.Names = append(o.Names, h.ID)
	}
	if h.Enforcement != api.EnforcementEnforce {
		o.NotEnforcing++
	}
	o.MemoryMB += smallest(h.Limits)
	t := h.Tally
	o.LeastMS, o.MostMS = min(o.LeastMS, t.ForMS), max(o.MostMS, t.ForMS)
	addCounts(o.Refused, t.Refused)
	addCounts(o.WouldBeRefused, h.WouldRefuse)
	o.Admitted += t.Admitted
	o.ShutMS += t.ShutMS
	o.Evicted += t.Evicted
	o.WouldEvict += t.WouldEvict
	o.Killed += t.Killed
	o.WouldAdmit += t.WouldAdmit
	o.WouldRefuse += t.WouldRefuse
	s.now.add(1, &api.HostLoad{
		Sandboxes: float64(h.SandboxCount), PromisedMB: h.ResidentMB + h.UnresidentMB + h.ReservedMB, ResidentMB: h.ResidentMB,
		CommittedMB: h.CommittedMB, AdmittableMB: h.AdmittableMB, WouldOfferMB: t.WouldOfferMB,
	})
	if t.Mean != nil {
		s.mean.add(float64(t.Mean.ForMS), t.Mean)
	}
}

func smallest(limits []api.Limit) int64 {
	if len(limits) == 0 {
		return 0
	}
	return slices.MinFunc(limits, func(a, b api.Limit) int { return int(a.SizeMB - b.SizeMB) }).SizeMB
}

func addCounts[M ~map[string]int64](to M, from map[string]int64) {
	for reason, n := range from {
		to[reason] += n
	}
}

func (s *side) shown() api.ModeSide {
	out := s.side
	if out.Hosts == 0 {
		out.LeastMS = 0
		return out
	}
	out.MemoryMB /= out.Hosts
	out.Now = s.now.aHost()
	if s.mean.weight > 0 {
		mean := s.mean.aHost()
		mean.ForMS = int64(s.mean.weight)
		out.Mean = &mean
	}
	return out
}

// sumOfLoads adds loads up by their weight.
type sumOfLoads struct {
	weight, sandboxes                                    float64
	promised, resident, committed, admittable, wouldHold float64
}

func (s *sumOfLoads) add(weight float64, l *api.HostLoad) {
	s.weight += weight
	s.sandboxes += weight * l.Sandboxes
	s.promised += weight * float64(l.PromisedMB)
	s.resident += weight * float64(l.ResidentMB)
	s.committed += weight * float64(l.CommittedMB)
	s.admittable += weight * float64(l.AdmittableMB)
	s.wouldHold += weight * float64(l.WouldOfferMB)
}

// aHost is the mean over all that was added.
func (s *sumOfLoads) aHost() api.HostLoad {
	mb := func(sum float64) int64 { return int64(math.Round(sum / s.weight)) }
	out := api.HostLoad{
		Sandboxes: math.Round(s.sandboxes/s.weight*100) / 100, PromisedMB: mb(s.promised), ResidentMB: mb(s.resident),
		CommittedMB: mb(s.committed), AdmittableMB: mb(s.admittable), WouldOfferMB: mb(s.wouldHold),
	}
	ratio(&out)
	return out
}
