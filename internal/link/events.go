package link

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
)

// This file holds what a replica may ask of a host, on the wire and off it. What a host is
// told by its own shell alone (samples, boots, ends) has no place in a frame.

func askOf(ev host.Event) (*agentv1.Ask, error) {
	switch e := ev.(type) {
	case host.Reserve:
		return &agentv1.Ask{What: &agentv1.Ask_Reserve{Reserve: &agentv1.Reserve{
			Id: e.ID, Generation: e.Gen, Need: needOf(&e.Ask), UntilNs: int64(e.Until), Incarnation: e.Incarnation,
			Whose: identityOf(&e.Whose),
		}}}, nil
	case host.Renew:
		return &agentv1.Ask{What: &agentv1.Ask_Renew{Renew: &agentv1.Renew{
			Id: e.ID, Epoch: e.Epoch, UntilNs: int64(e.Until), Incarnation: e.Incarnation,
		}}}, nil
	case host.Release:
		return &agentv1.Ask{What: &agentv1.Ask_Release{Release: &agentv1.Ref{Id: e.ID, Epoch: e.Gen}}}, nil
	case host.SetIntake:
		return &agentv1.Ask{What: &agentv1.Ask_SetIntake{SetIntake: &agentv1.SetIntake{Intake: int32(e.Intake)}}}, nil
	case host.Stand:
		return &agentv1.Ask{What: &agentv1.Ask_Stand{Stand: &agentv1.Stand{
			Id: e.ID, Need: needOf(&e.Ask), UntilNs: int64(e.Until), Incarnation: e.Incarnation,
		}}}, nil
	case host.Unstand:
		return &agentv1.Ask{What: &agentv1.Ask_Unstand{Unstand: e.ID}}, nil
	case host.SetEnforcement:
		return &agentv1.Ask{What: &agentv1.Ask_SetEnforcement{SetEnforcement: &agentv1.SetEnforcement{To: int32(e.To)}}}, nil
	case host.SetBypass:
		return &agentv1.Ask{What: &agentv1.Ask_SetBypass{SetBypass: &agentv1.SetBypass{ForNs: int64(e.For), By: e.By, Reason: e.Reason}}}, nil
	case host.AckedDeed:
		return &agentv1.Ask{What: &agentv1.Ask_AckedDeed{AckedDeed: e.N}}, nil
	case host.Acked:
		return &agentv1.Ask{What: &agentv1.Ask_Acked{Acked: refOf(host.Ref(e))}}, nil
	}
	return nil, fmt.Errorf("a %T is the host's own event and is not sent to it", ev)
}

// errUnknownAsk is what a newer replica is told.
var errUnknownAsk = errors.New("this agent's version does not know what was asked")

// eventOf reads an event. What a field means, and whether its figures can be counted, is
// judged by the host.
func eventOf(a *agentv1.Ask) (host.Event, error) {
	switch w := a.GetWhat().(type) {
	case *agentv1.Ask_Reserve:
		e := w.Reserve
		return host.Reserve{
			ID: e.GetId(), Gen: e.GetGeneration(), Ask: askFrom(e.GetNeed()),
			Until: host.Instant(e.GetUntilNs()), Incarnation: e.GetIncarnation(),
			Whose: identityFrom(e.GetWhose()),
		}, nil
	case *agentv1.Ask_Renew:
		e := w.Renew
		return host.Renew{ID: e.GetId(), Epoch: e.GetEpoch(), Until: host.Instant(e.GetUntilNs()), Incarnation: e.GetIncarnation()}, nil
	case *agentv1.Ask_Release:
		return host.Release{ID: w.Release.GetId(), Gen: w.Release.GetEpoch()}, nil
	case *agentv1.Ask_SetIntake:
		return host.SetIntake{Intake: host.Intake(small(w.SetIntake.GetIntake()))}, nil
	case *agentv1.Ask_Stand:
		e := w.Stand
		return host.Stand{ID: e.GetId(), Ask: askFrom(e.GetNeed()), Until: host.Instant(e.GetUntilNs()), Incarnation: e.GetIncarnation()}, nil
	case *agentv1.Ask_Unstand:
		return host.Unstand{ID: w.Unstand}, nil
	case *agentv1.Ask_SetEnforcement:
		return host.SetEnforcement{To: host.Enforcement(small(w.SetEnforcement.GetTo()))}, nil
	case *agentv1.Ask_SetBypass:
		b := w.SetBypass
		return host.SetBypass{For: time.Duration(b.GetForNs()), By: b.GetBy(), Reason: b.GetReason()}, nil
	case *agentv1.Ask_AckedDeed:
		return host.AckedDeed{N: w.AckedDeed}, nil
	case *agentv1.Ask_Acked:
		return host.Acked(refFrom(w.Acked)), nil
	}
	return nil, errUnknownAsk
}

// small keeps a number that no byte holds from looking like one that means something.
func small(n int32) uint8 {
	if n < 0 || n > math.MaxUint8 {
		return math.MaxUint8
	}
	return uint8(n)
}

func refOf(r host.Ref) *agentv1.Ref { return &agentv1.Ref{Id: r.ID, Epoch: r.Epoch} }

func refFrom(r *agentv1.Ref) host.Ref { return host.Ref{ID: r.GetId(), Epoch: r.GetEpoch()} }

func needOf(a *gate.Ask) *agentv1.Need {
	return &agentv1.Need{
		Class: a.Class, Template: a.Template, MemoryBytes: int64(a.Memory), CpuMilli: a.CPUMilli,
		Priority: int64(a.Priority), Stateful: a.Stateful,
		Rule: &agentv1.ReserveRule{
			Permille: a.Rule.Permille, FloorBytes: int64(a.Rule.Floor), Until: int32(a.Rule.Until), SettleAfterNs: int64(a.Rule.SettleAfter),
			LearnedBytes: int64(a.Rule.Learned),
		},
		Dimensions: dimensionsOf(a.Dims), Labels: labelsOf(a.Labels), HoldOnExit: a.HoldOnExit,
	}
}

func askFrom(n *agentv1.Need) gate.Ask {
	r := n.GetRule()
	return gate.Ask{
		Class: n.GetClass(), Template: n.GetTemplate(), Memory: gate.Bytes(n.GetMemoryBytes()), CPUMilli: n.GetCpuMilli(),
		Priority: int(n.GetPriority()), Stateful: n.GetStateful(),
		Rule: gate.ReserveRule{
			Permille: r.GetPermille(), Floor: gate.Bytes(r.GetFloorBytes()),
			Until: gate.ReserveUntil(small(r.GetUntil())), SettleAfter: host.Instant(r.GetSettleAfterNs()),
			Learned: gate.Bytes(r.GetLearnedBytes()),
		},
		Dims: dimensionsFrom(n.GetDimensions()), Labels: labelsFrom(n.GetLabels()), HoldOnExit: n.GetHoldOnExit(),
	}
}

func dimensionsOf(dims []gate.Dim) []*agentv1.Dimension {
	if len(dims) == 0 {
		return nil
	}
	out, all := make([]*agentv1.Dimension, len(dims)), make([]agentv1.Dimension, len(dims))
	for i, d := range dims {
		all[i].Name, all[i].N = d.Name, d.N
		out[i] = &all[i]
	}
	return out
}

func dimensionsFrom(dims []*agentv1.Dimension) []gate.Dim {
	if len(dims) == 0 {
		return nil
	}
	out := make([]gate.Dim, len(dims))
	for i, d := range dims {
		out[i] = gate.Dim{Name: d.GetName(), N: d.GetN()}
	}
	return out
}

func labelsOf(labels []gate.Label) []*agentv1.Label {
	if len(labels) == 0 {
		return nil
	}
	out, all := make([]*agentv1.Label, len(labels)), make([]agentv1.Label, len(labels))
	for i, l := range labels {
		all[i].Name, all[i].Value = l.Name, l.Value
		out[i] = &all[i]
	}
	return out
}

func labelsFrom(labels []*agentv1.Label) []gate.Label {
	if len(labels) == 0 {
		return nil
	}
	out := make([]gate.Label, len(labels))
	for i, l := range labels {
		out[i] = gate.Label{Name: l.GetName(), Value: l.GetValue()}
	}
	return out
}
