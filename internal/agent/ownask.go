package agent

import (
	"cmp"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// Bounds of an ask, as the API has them.
const (
	maxAskMB  = 1 << 30 // 1 PiB
	maxAskCPU = 1 << 20
	maxNames  = 32 // labels, dimensions
)

// askOf checks an ask and puts it into the words of the gate.
func askOf(in *boot.Ask) (gate.Ask, error) {
	switch {
	case in == nil:
		return gate.Ask{}, api.Refuse(api.InvalidRequest, "reserve needs an ask, as in {\"memory_mb\": 512}")
	case in.MemoryMB < 1 || in.MemoryMB > maxAskMB:
		return gate.Ask{}, api.Refuse(api.InvalidRequest, "memory_mb %d: write 1 to %d", in.MemoryMB, maxAskMB)
	case !(in.CPU >= 0 && in.CPU <= maxAskCPU):
		return gate.Ask{}, api.Refuse(api.InvalidRequest, "cpu %v: write cores from 0 to %d", in.CPU, maxAskCPU)
	case in.Priority < -1000 || in.Priority > 1000:
		return gate.Ask{}, api.Refuse(api.InvalidRequest, "priority %d: write -1000 to 1000", in.Priority)
	case len(in.Labels) > maxNames || len(in.Dims) > maxNames:
		return gate.Ask{}, api.Refuse(api.InvalidRequest, "labels and dims are at most %d each", maxNames)
	}
	for _, n := range [...]struct{ field, name string }{{"key", in.Key}, {"class", in.Class}, {"template", in.Template}} {
		if len(n.name) > ticket.MaxName {
			return gate.Ask{}, api.Refuse(api.InvalidRequest, "%s is %d bytes: use at most %d", n.field, len(n.name), ticket.MaxName)
		}
	}
	rule, err := ruleOf(in.Reserve)
	if err != nil {
		return gate.Ask{}, err
	}
	a := gate.Ask{
		Class: cmp.Or(in.Class, ownName), Template: cmp.Or(in.Template, in.Class, ownName),
		Memory: gate.FromMiB(in.MemoryMB), CPUMilli: int64(math.Round(in.CPU * 1000)), Priority: in.Priority,
		Stateful: in.Stateful, HoldOnExit: in.HoldOnExit, Rule: rule,
	}
	for name, value := range in.Labels {
		a.Labels = append(a.Labels, gate.Label{Name: name, Value: value})
	}
	for name, n := range in.Dims {
		a.Dims = append(a.Dims, gate.Dim{Name: name, N: n})
	}
	slices.SortFunc(a.Labels, func(x, y gate.Label) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(a.Dims, func(x, y gate.Dim) int { return cmp.Compare(x.Name, y.Name) })
	if fault := a.Fault(); fault != "" {
		return a, api.Refuse(api.InvalidRequest, "%s is no amount: write 0 or more", fault)
	}
	return a, nil
}

func ruleOf(in *boot.ReserveRule) (gate.ReserveRule, error) {
	rule := gate.DefaultReserveRule()
	if in == nil {
		return rule, nil
	}
	if f := in.Fraction; f != nil {
		if !(*f >= 0 && *f <= 1) {
			return rule, api.Refuse(api.InvalidRequest, "reserve_rule.fraction %v: write 0 to 1", *f)
		}
		rule.Permille = int64(math.Round(*f * 1000))
	}
	if f := in.FloorMB; f != nil {
		if *f < 0 || *f > maxAskMB {
			return rule, api.Refuse(api.InvalidRequest, "reserve_rule.floor_mb %d: write 0 to %d", *f, maxAskMB)
		}
		rule.Floor = gate.FromMiB(*f)
	}
	if in.SettleAfterMS < 0 || in.SettleAfterMS > time.Hour.Milliseconds() {
		return rule, api.Refuse(api.InvalidRequest, "reserve_rule.settle_after_ms %d: write 0 to %d", in.SettleAfterMS, time.Hour.Milliseconds())
	}
	if in.SettleAfterMS > 0 {
		rule.SettleAfter = time.Duration(in.SettleAfterMS) * time.Millisecond
	}
	if in.UntilSettled {
		rule.Until = gate.UntilSettled
	}
	return rule, nil
}

// denial says a host's no in the words of the API, with its figures and when to come back.
func (a *Agent) denial(ask gate.Ask, answer host.Answer) boot.Reply {
	v, need := answer.Verdict, gate.Need(ask, a.cfg.Host.Mode)
	code, detail := reserveRefusal(ask, need, answer)
	r := boot.Reply{
		Event: boot.EvRefused, Code: code, Detail: detail, Host: a.ID(),
		NeedMB: need.CeilMiB(), AdmittableMB: v.Admittable.FloorMiB(), Intake: v.Intake.String(),
	}
	if code.Meaning().Retryable() {
		bounds := hint.DefaultBounds()
		if code == api.HostPressure {
			bounds.Unknown = a.cfg.Host.Marks.Dwell // it opens no sooner
		}
		after := hint.Appointment(hint.Place{Own: max(need.CeilMiB(), 1)}, 0, bounds, mathrand.Uint64())
		r.RetryAfterMS = after.Milliseconds()
	}
	return r
}

func reserveRefusal(ask gate.Ask, need gate.Bytes, answer host.Answer) (api.Code, string) {
	v := answer.Verdict
	switch answer.Denial {
	case host.NoRoom:
		if v.Limit > 0 && need > v.MaxAsk {
			return api.Infeasible, fmt.Sprintf("needs %s, and this host could never promise more than %s", need, v.MaxAsk)
		}
		return api.NoCapacity, fmt.Sprintf("needs %s; %s can be promised now", need, v.Admittable)
	case host.Pressure:
		return api.HostPressure, "the intake is shut: " + answer.Detail
	case host.Cordoned:
		return api.HostDraining, "this host is cordoned: it takes nothing new"
	case host.Draining:
		return api.HostDraining, "this host is draining: it takes nothing new"
	case host.StartsFull:
		return api.HostStartsFull, "as many starts are promised as this host takes"
	case host.LacksLabel:
		return api.Infeasible, "this host does not carry label " + answer.Detail + " with that value"
	case host.LacksDim:
		name := answer.Detail
		if i := slices.IndexFunc(v.Limits, func(d gate.Dim) bool { return d.Name == name }); i >= 0 && ask.Takes(name) <= v.Limits[i].N {
			return api.NoCapacity, fmt.Sprintf("takes %d of %s, of which too few are left", ask.Takes(name), name)
		}
		return api.Infeasible, "this host never has so much of " + name
	}
	return api.Internal, "the host says " + string(answer.Denial)
}
