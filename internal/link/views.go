package link

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pressure"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
)

// This file holds what a host shows of itself when it is asked to: all that it holds, and its
// arithmetic laid open.

func heldOf(h *host.Held) *agentv1.Held {
	out := &agentv1.Held{Reserved: refsOf(h.Reserved), Ends: endsOf(h.Ends)}
	for _, d := range h.Deeds {
		out.Deeds = append(out.Deeds, &agentv1.Deed{N: d.N, Incarnation: d.Incarnation, AtNs: int64(d.At), By: d.By, What: d.What, Reason: d.Reason})
	}
	for i := range h.Sandboxes {
		out.Sandboxes = append(out.Sandboxes, sandboxOf(&h.Sandboxes[i]))
	}
	for i := range h.Recorded {
		out.Recorded = append(out.Recorded, &agentv1.Recorded{Id: h.Recorded[i].ID, Placed: placedOf(&h.Recorded[i].Placed)})
	}
	for _, s := range h.OutOfGate {
		out.OutOfGate = append(out.OutOfGate, strayOf(s))
	}
	return out
}

func heldFrom(h *agentv1.Held) host.Held {
	out := host.Held{Reserved: refsFrom(h.GetReserved()), Ends: endsFrom(h.GetEnds())}
	for _, d := range h.GetDeeds() {
		out.Deeds = append(out.Deeds, host.Deed{
			N: d.GetN(), Incarnation: d.GetIncarnation(), At: host.Instant(d.GetAtNs()), By: d.GetBy(), What: d.GetWhat(), Reason: d.GetReason(),
		})
	}
	for _, s := range h.GetSandboxes() {
		out.Sandboxes = append(out.Sandboxes, sandboxFrom(s))
	}
	for _, r := range h.GetRecorded() {
		out.Recorded = append(out.Recorded, host.Recorded{ID: r.GetId(), Placed: placedFrom(r.GetPlaced())})
	}
	for _, s := range h.GetOutOfGate() {
		out.OutOfGate = append(out.OutOfGate, strayFrom(s))
	}
	return out
}

func strayOf(s host.Stray) *agentv1.Stray {
	out := &agentv1.Stray{Id: s.ID, Where: s.Where, Lost: s.Lost, ResidentBytes: int64(s.Resident)}
	for _, pid := range s.PIDs {
		out.Pids = append(out.Pids, int64(pid))
	}
	return out
}

func strayFrom(s *agentv1.Stray) host.Stray {
	out := host.Stray{ID: s.GetId(), Where: s.GetWhere(), Lost: s.GetLost(), Resident: gate.Bytes(s.GetResidentBytes())}
	for _, pid := range s.GetPids() {
		out.PIDs = append(out.PIDs, int(pid))
	}
	return out
}

func sandboxOf(s *host.Sandbox) *agentv1.Sandbox {
	return &agentv1.Sandbox{
		Id: s.ID, Epoch: s.Epoch, Consumer: s.Identity.Consumer, Key: s.Identity.Key, Tenant: s.Identity.Tenant,
		Pool: s.Identity.Pool, Class: s.Identity.Class, Need: needOf(&s.Ask), Phase: string(s.Phase),
		Pid: int64(s.Process.Pid), PidStart: s.Process.Start, Cgroup: s.Process.Cgroup,
		RedeemedNs: int64(s.Redeemed), Turn: s.Turn, TrackedNs: int64(s.Tracked),
		ResidentBytes: int64(s.Usage.Resident), Settled: s.Usage.Settled, SwappedBytes: int64(s.Swapped),
		Stopping: s.Stopping, Superseded: s.Superseded, Waiver: string(s.Waiver),
		FileCacheBytes: int64(s.FileCache), Holds: dimensionsOf(s.Holds), PeakBytes: int64(s.Peak),
		ActiveNs: int64(s.Active), Evicting: s.Evicting,
	}
}

func sandboxFrom(s *agentv1.Sandbox) host.Sandbox {
	return host.Sandbox{
		ID: s.GetId(), Epoch: s.GetEpoch(), Ask: askFrom(s.GetNeed()), Phase: host.Phase(s.GetPhase()),
		Identity: host.Identity{Consumer: s.GetConsumer(), Key: s.GetKey(), Tenant: s.GetTenant(), Pool: s.GetPool(), Class: s.GetClass()},
		Process:  host.Process{Pid: int(s.GetPid()), Start: s.GetPidStart(), Cgroup: s.GetCgroup()},
		Redeemed: host.Instant(s.GetRedeemedNs()), Turn: s.GetTurn(), Tracked: host.Instant(s.GetTrackedNs()),
		Usage:   gate.Usage{Resident: gate.Bytes(s.GetResidentBytes()), Settled: s.GetSettled()},
		Swapped: gate.Bytes(s.GetSwappedBytes()), Stopping: s.GetStopping(), Superseded: s.GetSuperseded(),
		Waiver: host.Waiver(s.GetWaiver()), FileCache: gate.Bytes(s.GetFileCacheBytes()), Holds: dimensionsFrom(s.GetHolds()), Peak: gate.Bytes(s.GetPeakBytes()),
		Active: host.Instant(s.GetActiveNs()), Evicting: s.GetEvicting(),
	}
}

func placedOf(p *host.Placed) *agentv1.Placed {
	return &agentv1.Placed{
		Epoch: p.Epoch, Reserved: p.Reserved, Running: p.Running, TrackedNs: int64(p.Tracked),
		Identity: identityOf(&p.Identity), Need: needOf(&p.Ask), UntilNs: int64(p.Until), NowNs: int64(p.Now),
	}
}

func placedFrom(p *agentv1.Placed) host.Placed {
	return host.Placed{
		Epoch: p.GetEpoch(), Reserved: p.GetReserved(), Running: p.GetRunning(), Tracked: host.Instant(p.GetTrackedNs()),
		Identity: identityFrom(p.GetIdentity()), Ask: askFrom(p.GetNeed()), Until: host.Instant(p.GetUntilNs()), Now: host.Instant(p.GetNowNs()),
	}
}

// identityOf is nil for nobody's, which most reservations are on their host.
func identityOf(i *host.Identity) *agentv1.Identity {
	if *i == (host.Identity{}) {
		return nil
	}
	return &agentv1.Identity{Consumer: i.Consumer, Key: i.Key, Tenant: i.Tenant, Pool: i.Pool, Class: i.Class}
}

func identityFrom(i *agentv1.Identity) host.Identity {
	return host.Identity{Consumer: i.GetConsumer(), Key: i.GetKey(), Tenant: i.GetTenant(), Pool: i.GetPool(), Class: i.GetClass()}
}

func viewOf(v *host.View) *agentv1.View {
	out := &agentv1.View{
		Binding: v.Binding, FreeBytes: int64(v.Account.Free), HeadroomBytes: int64(v.Account.Headroom),
		UnresidentBytes: int64(v.Account.Unresident), ReservedBytes: int64(v.Account.Reserved),
		Reservations: int64(v.Reservations), Reopened: int64(v.Reopened),
		Standing:      &agentv1.Standing{Id: v.Standing.ID, Need: needOf(&v.Standing.Ask), NeedBytes: int64(v.Standing.Need), UntilNs: int64(v.Standing.Until)},
		ResidentBytes: int64(v.Resident), CommittedBytes: int64(v.Committed), Starting: int64(v.Starting), InLine: int64(v.InLine),
		Settings: settingsOf(&v.Config), Reading: readingOf(v.Reading), Shut: string(v.Shut),
		Bypass: bypassOf(v.Bypass), OutsideBytes: int64(v.Outside), Reclaim: int32(v.Reclaim), Lost: v.Lost,
		RampLeftBytes: int64(v.RampLeft), RampNextNs: int64(v.RampNext), Tally: tallyOf(&v.Tally), SandboxFileRefaults: v.Refaults,
	}
	if v.AllRefaults.Known {
		out.MachineFileRefaults = &v.AllRefaults.N
	}
	for _, stray := range v.OutOfGate {
		out.OutOfGate = append(out.OutOfGate, strayOf(stray))
	}
	for i := range v.Evictions {
		out.Evictions = append(out.Evictions, evictionOf(&v.Evictions[i]))
	}
	for _, w := range v.Waived {
		out.Waived = append(out.Waived, &agentv1.Waived{Denial: string(w.Denial), N: w.N})
	}
	for _, l := range v.Limits {
		out.Limits = append(out.Limits, &agentv1.Limit{Name: l.Name, SizeBytes: int64(l.Size), UsedBytes: int64(l.Used)})
	}
	for i := range v.Sandboxes {
		s := sandboxOf(&v.Sandboxes[i])
		s.ChargeBytes = int64(v.Charges[i])
		out.Sandboxes = append(out.Sandboxes, s)
	}
	return out
}

func viewFrom(v *agentv1.View, verdict host.Verdict) host.View {
	st := v.GetStanding()
	out := host.View{
		Verdict: verdict, Binding: v.GetBinding(),
		Account: gate.Account{
			Free: gate.Bytes(v.GetFreeBytes()), Headroom: gate.Bytes(v.GetHeadroomBytes()),
			Unresident: gate.Bytes(v.GetUnresidentBytes()), Reserved: gate.Bytes(v.GetReservedBytes()),
		},
		Reservations: int(v.GetReservations()), Reopened: int(v.GetReopened()),
		Standing: host.Standing{ID: st.GetId(), Ask: askFrom(st.GetNeed()), Need: gate.Bytes(st.GetNeedBytes()), Until: host.Instant(st.GetUntilNs())},
		Resident: gate.Bytes(v.GetResidentBytes()), Committed: gate.Bytes(v.GetCommittedBytes()),
		Starting: int(v.GetStarting()), InLine: int(v.GetInLine()),
		Config: settingsFrom(v.GetSettings()), Reading: readingFrom(v.GetReading()), Shut: pressure.Cause(v.GetShut()),
		Bypass: bypassFrom(v.GetBypass()), Outside: gate.Bytes(v.GetOutsideBytes()), Reclaim: host.Reclaim(small(v.GetReclaim())), Lost: v.GetLost(),
		RampLeft: gate.Bytes(v.GetRampLeftBytes()), RampNext: host.Instant(v.GetRampNextNs()), Tally: tallyFrom(v.GetTally()),
		Refaults: v.GetSandboxFileRefaults(), AllRefaults: host.Counter{N: v.GetMachineFileRefaults(), Known: v != nil && v.MachineFileRefaults != nil},
	}
	for _, stray := range v.GetOutOfGate() {
		out.OutOfGate = append(out.OutOfGate, strayFrom(stray))
	}
	for _, e := range v.GetEvictions() {
		out.Evictions = append(out.Evictions, evictionFrom(e))
	}
	for _, w := range v.GetWaived() {
		out.Waived = append(out.Waived, host.Waived{Denial: host.Denial(w.GetDenial()), N: w.GetN()})
	}
	for _, l := range v.GetLimits() {
		out.Limits = append(out.Limits, gate.Limit{Name: l.GetName(), Size: gate.Bytes(l.GetSizeBytes()), Used: gate.Bytes(l.GetUsedBytes())})
	}
	for _, s := range v.GetSandboxes() {
		out.Sandboxes = append(out.Sandboxes, sandboxFrom(s))
		out.Charges = append(out.Charges, gate.Bytes(s.GetChargeBytes()))
	}
	return out
}

func tallyOf(t *host.Tally) *agentv1.Tally {
	out := &agentv1.Tally{
		ForNs: int64(t.For), Admitted: t.Admitted, ShutNs: int64(t.Shut), Evicted: t.Evicted, WouldEvict: t.WouldEvict, Killed: t.Killed, Lost: t.Lost,
		WouldAdmit: t.WouldAdmit, WouldRefuse: t.WouldRefuse, WeighedNs: int64(t.Weighed),
		Mean: &agentv1.Load{
			SandboxesMilli: t.Mean.SandboxesMilli, PromisedBytes: int64(t.Mean.Promised), ResidentBytes: int64(t.Mean.Resident),
			CommittedBytes: int64(t.Mean.Committed), AdmittableBytes: int64(t.Mean.Admittable), WouldOfferBytes: int64(t.Mean.WouldOffer),
		},
	}
	for _, r := range t.Refused {
		out.Refused = append(out.Refused, &agentv1.Refused{Denial: string(r.Denial), N: r.N})
	}
	return out
}

func tallyFrom(t *agentv1.Tally) host.Tally {
	m := t.GetMean()
	out := host.Tally{
		For: time.Duration(t.GetForNs()), Admitted: t.GetAdmitted(), Shut: time.Duration(t.GetShutNs()),
		Evicted: t.GetEvicted(), WouldEvict: t.GetWouldEvict(), Killed: t.GetKilled(), Lost: t.GetLost(),
		WouldAdmit: t.GetWouldAdmit(), WouldRefuse: t.GetWouldRefuse(), Weighed: time.Duration(t.GetWeighedNs()),
		Mean: host.Load{
			SandboxesMilli: m.GetSandboxesMilli(), Promised: gate.Bytes(m.GetPromisedBytes()), Resident: gate.Bytes(m.GetResidentBytes()),
			Committed: gate.Bytes(m.GetCommittedBytes()), Admittable: gate.Bytes(m.GetAdmittableBytes()), WouldOffer: gate.Bytes(m.GetWouldOfferBytes()),
		},
	}
	for _, r := range t.GetRefused() {
		out.Refused = append(out.Refused, host.Refused{Denial: host.Denial(r.GetDenial()), N: r.GetN()})
	}
	return out
}

func evictionOf(e *host.Eviction) *agentv1.Eviction {
	return &agentv1.Eviction{
		Id: e.ID, Epoch: e.Epoch, Identity: identityOf(&e.Identity), AtNs: int64(e.At), By: string(e.By), GoneNs: int64(e.Gone),
		Priority: int64(e.Priority), IdleNs: int64(e.Idle), ResidentBytes: int64(e.Resident), OvershootBytes: int64(e.Overshoot),
		FreeBytes: int64(e.Free), HeadroomBytes: int64(e.Headroom), DeficitBytes: int64(e.Deficit),
		Pid: int64(e.Process.Pid), PidStart: e.Process.Start, Cgroup: e.Process.Cgroup,
	}
}

func evictionFrom(e *agentv1.Eviction) host.Eviction {
	return host.Eviction{
		ID: e.GetId(), Epoch: e.GetEpoch(), Identity: identityFrom(e.GetIdentity()), At: host.Instant(e.GetAtNs()), By: host.Means(e.GetBy()), Gone: host.Instant(e.GetGoneNs()),
		Priority: int(e.GetPriority()), Idle: time.Duration(e.GetIdleNs()), Resident: gate.Bytes(e.GetResidentBytes()), Overshoot: gate.Bytes(e.GetOvershootBytes()),
		Free: gate.Bytes(e.GetFreeBytes()), Headroom: gate.Bytes(e.GetHeadroomBytes()), Deficit: gate.Bytes(e.GetDeficitBytes()),
		Process: host.Process{Pid: int(e.GetPid()), Start: e.GetPidStart(), Cgroup: e.GetCgroup()},
	}
}

func bypassOf(b host.Bypass) *agentv1.Bypass {
	return &agentv1.Bypass{SinceNs: int64(b.Since), UntilNs: int64(b.Until), By: b.By, Reason: b.Reason, Booted: b.Booted}
}

func bypassFrom(b *agentv1.Bypass) host.Bypass {
	return host.Bypass{
		Since: host.Instant(b.GetSinceNs()), Until: host.Instant(b.GetUntilNs()), By: b.GetBy(), Reason: b.GetReason(), Booted: b.GetBooted(),
	}
}

func settingsOf(c *host.Config) *agentv1.Settings {
	return &agentv1.Settings{
		Host: c.ID, Mode: int32(c.Mode), Enforcement: int32(c.Enforcement), HeadroomBytes: int64(c.Headroom), BootWithinNs: int64(c.BootWithin),
		MaxStarts: int64(c.MaxStarts), MaxWaitingStarts: int64(c.MaxWaitingStarts), CpuMilli: c.CPUMilli,
		StreamRestore: c.StreamRestore, Labels: labelsOf(c.Labels), Dimensions: dimensionsOf(c.Dims), Reclaim: int32(c.Reclaim),
		Marks: &agentv1.Marks{
			SomeShut: c.Marks.SomeShut, SomeOpen: c.Marks.SomeOpen, FullLost: c.Marks.FullLost,
			DwellNs: int64(c.Marks.Dwell), MaxDwellNs: int64(c.Marks.MaxDwell),
		},
	}
}

func settingsFrom(s *agentv1.Settings) host.Config {
	m := s.GetMarks()
	return host.Config{
		ID: s.GetHost(), Mode: gate.Mode(small(s.GetMode())), Enforcement: host.Enforcement(small(s.GetEnforcement())), Headroom: gate.Bytes(s.GetHeadroomBytes()), BootWithin: time.Duration(s.GetBootWithinNs()),
		MaxStarts: int(s.GetMaxStarts()), MaxWaitingStarts: int(s.GetMaxWaitingStarts()), CPUMilli: s.GetCpuMilli(),
		StreamRestore: s.GetStreamRestore(), Labels: labelsFrom(s.GetLabels()), Dims: dimensionsFrom(s.GetDimensions()), Reclaim: host.Reclaim(small(s.GetReclaim())),
		Marks: pressure.Marks{
			SomeShut: m.GetSomeShut(), SomeOpen: m.GetSomeOpen(), FullLost: m.GetFullLost(),
			Dwell: time.Duration(m.GetDwellNs()), MaxDwell: time.Duration(m.GetMaxDwellNs()),
		},
	}
}

func readingOf(r pressure.Reading) *agentv1.Reading {
	return &agentv1.Reading{
		FreeBytes: int64(r.Free), HeadroomBytes: int64(r.Headroom), SpareBytes: int64(r.Spare), GrowthBytes: int64(r.Growth),
		Psi: r.PSI, Some: r.Some, Full: r.Full,
	}
}

func readingFrom(r *agentv1.Reading) pressure.Reading {
	return pressure.Reading{
		Free: gate.Bytes(r.GetFreeBytes()), Headroom: gate.Bytes(r.GetHeadroomBytes()), Spare: gate.Bytes(r.GetSpareBytes()),
		Growth: gate.Bytes(r.GetGrowthBytes()), PSI: r.GetPsi(), Some: r.GetSome(), Full: r.GetFull(),
	}
}
