package link

import (
	"slices"

	"github.com/plimsoll-project/plimsoll/digest"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
)

// This file holds what a host says: its verdict, its answers and what happened.

// facts are what hardly ever changes of a verdict, and is not said again until it does.
type facts struct {
	mode          gate.Mode
	streamRestore bool
	labels        []gate.Label
	limits        []gate.Dim
}

func (f *facts) equal(other *facts) bool {
	return f.mode == other.mode && f.streamRestore == other.streamRestore &&
		sameSlice(f.labels, other.labels) && sameSlice(f.limits, other.limits)
}

// sameSlice looks into slices only if they are not one: a host never changes one it gave out.
func sameSlice[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b)
}

// speaker writes one stream's verdicts.
type speaker struct {
	said    *facts
	holding host.Holding
}

func (s *speaker) verdict(v *host.Verdict) *agentv1.Verdict {
	out := &agentv1.Verdict{
		Stamp: stampOf(v), Intake: int32(v.Intake), AdmittableBytes: int64(v.Admittable), Standing: v.Standing,
		FreeBytes: int64(v.Free), LimitBytes: int64(v.Limit), MaxAskBytes: int64(v.MaxAsk),
		CpuTotalMilli: v.CPUTotalMilli, CpuFreeMilli: v.CPUFreeMilli, Left: dimensionsOf(v.Dims),
		Enforcement: int32(v.Enforcement), Ordered: int32(v.Ordered), Bypass: v.Bypass, WouldOfferBytes: int64(v.WouldOffer),
	}
	now := facts{mode: v.Mode, streamRestore: v.StreamRestore, labels: v.Labels, limits: v.Limits}
	if s.said == nil || !s.said.equal(&now) {
		s.said = &now
		out.Facts = &agentv1.Facts{
			Mode: int32(now.mode), StreamRestore: now.streamRestore, Labels: labelsOf(now.labels), Limits: dimensionsOf(now.limits),
		}
	}
	if v.Holding != s.holding {
		s.holding = v.Holding
		out.Holding = holdingOf(&v.Holding)
	}
	return out
}

func stampOf(v *host.Verdict) *agentv1.Stamp {
	return &agentv1.Stamp{Incarnation: v.Incarnation, Sequence: v.Sequence, AtNs: int64(v.At)}
}

// listener reads one stream's verdicts.
type listener struct {
	host    string
	facts   facts
	holding host.Holding
}

func (l *listener) verdict(v *agentv1.Verdict) host.Verdict {
	if v == nil {
		return host.Verdict{}
	}
	if f := v.GetFacts(); f != nil {
		l.facts = facts{
			mode: gate.Mode(small(f.GetMode())), streamRestore: f.GetStreamRestore(),
			labels: labelsFrom(f.GetLabels()), limits: dimensionsFrom(f.GetLimits()),
		}
	}
	if h := v.GetHolding(); h != nil {
		l.holding = holdingFrom(h)
	}
	return host.Verdict{
		Host: l.host, Incarnation: v.GetStamp().GetIncarnation(), Sequence: v.GetStamp().GetSequence(), At: host.Instant(v.GetStamp().GetAtNs()),
		Intake: host.Intake(small(v.GetIntake())), Admittable: gate.Bytes(v.GetAdmittableBytes()), Standing: v.GetStanding(),
		Free: gate.Bytes(v.GetFreeBytes()), Limit: gate.Bytes(v.GetLimitBytes()), MaxAsk: gate.Bytes(v.GetMaxAskBytes()),
		CPUTotalMilli: v.GetCpuTotalMilli(), CPUFreeMilli: v.GetCpuFreeMilli(), Dims: dimensionsFrom(v.GetLeft()),
		Enforcement: host.Enforcement(small(v.GetEnforcement())), Ordered: host.Enforcement(small(v.GetOrdered())), Bypass: v.GetBypass(),
		Mode: l.facts.mode, StreamRestore: l.facts.streamRestore, Labels: l.facts.labels, Limits: l.facts.limits,
		Holding: l.holding, WouldOffer: gate.Bytes(v.GetWouldOfferBytes()),
	}
}

func holdingOf(h *host.Holding) *agentv1.Holding {
	return &agentv1.Holding{
		Reserved: h.Reserved.N, ReservedFirst: h.Reserved.First, ReservedSecond: h.Reserved.Second,
		Booting: h.Booting.N, BootingFirst: h.Booting.First, BootingSecond: h.Booting.Second,
		Running: h.Running.N, RunningFirst: h.Running.First, RunningSecond: h.Running.Second,
		Untold: h.Untold,
	}
}

func holdingFrom(h *agentv1.Holding) host.Holding {
	return host.Holding{
		Told:     true,
		Reserved: digest.Sum{N: h.GetReserved(), First: h.GetReservedFirst(), Second: h.GetReservedSecond()},
		Booting:  digest.Sum{N: h.GetBooting(), First: h.GetBootingFirst(), Second: h.GetBootingSecond()},
		Running:  digest.Sum{N: h.GetRunning(), First: h.GetRunningFirst(), Second: h.GetRunningSecond()},
		Untold:   h.GetUntold(),
	}
}

// answerOf writes an answer but for its verdict, which is the frame's.
func answerOf(a *host.Answer) *agentv1.Answer {
	return &agentv1.Answer{
		Denial: string(a.Denial), Detail: a.Detail, InLine: a.InLine, Running: a.Running,
		UntilNs: int64(a.Until), NeedBytes: int64(a.Need), Would: string(a.Would), Evicted: a.Evicted,
	}
}

func answerFrom(a *agentv1.Answer, v host.Verdict) host.Answer {
	return host.Answer{
		Denial: host.Denial(a.GetDenial()), Detail: a.GetDetail(), InLine: a.GetInLine(), Running: a.GetRunning(),
		Until: host.Instant(a.GetUntilNs()), Need: gate.Bytes(a.GetNeedBytes()), Would: host.Denial(a.GetWould()), Evicted: a.GetEvicted(), Verdict: v,
	}
}

func refsOf(refs []host.Ref) []*agentv1.Ref {
	var out []*agentv1.Ref
	for _, r := range refs {
		out = append(out, refOf(r))
	}
	return out
}

func refsFrom(refs []*agentv1.Ref) []host.Ref {
	var out []host.Ref
	for _, r := range refs {
		out = append(out, refFrom(r))
	}
	return out
}

func endsOf(ends []host.End) []*agentv1.End {
	var out []*agentv1.End
	for _, e := range ends {
		out = append(out, &agentv1.End{Id: e.ID, Epoch: e.Epoch, How: string(e.How), Reason: e.Reason, Unbooted: e.Unbooted})
	}
	return out
}

func endsFrom(ends []*agentv1.End) []host.End {
	var out []host.End
	for _, e := range ends {
		out = append(out, host.End{ID: e.GetId(), Epoch: e.GetEpoch(), How: host.Outcome(e.GetHow()), Reason: e.GetReason(), Unbooted: e.GetUnbooted()})
	}
	return out
}
