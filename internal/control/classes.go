package control

import (
	"context"
	"slices"
	"strings"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/learned"
	"github.com/plimsoll-project/plimsoll/learn"
	"github.com/plimsoll-project/plimsoll/registry"
)

// Classes lists the classes with what was learned of their templates.
func (g *Gateway) Classes(ctx context.Context, who *config.Consumer) (api.ClassList, error) {
	fleet := g.Fleet()
	if fleet == nil {
		return api.ClassList{}, g.Refused(api.Refuse(api.Unavailable, "no configuration is in force"), who)
	}
	all, err := g.Store.Learned(ctx)
	if err != nil {
		return api.ClassList{}, g.unreadable(err, who)
	}
	rooms := g.rooms()
	out := api.ClassList{Hosts: int64(len(rooms)), Classes: []api.ClassStanding{}}
	for _, room := range rooms {
		out.PromisableMB += room.FloorMiB()
	}
	for i := range fleet.Classes {
		if c := &fleet.Classes[i]; !fleet.WithoutHosts(c) {
			out.Classes = append(out.Classes, classStanding(c, all, rooms))
		}
	}
	return out, nil
}

// rooms is what each host could promise if it held nothing: of those that are heard and take new ones.
func (g *Gateway) rooms() (out []gate.Bytes) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range sortedKeys(g.hosts) {
		a := g.hosts[id]
		state := registry.Active
		if h, ok := g.known.hosts[id]; ok {
			state = h.State
		}
		if a.heard && g.Now()-a.heardAt < g.silentAfter() && state == registry.Active {
			out = append(out, a.verdict.MaxAsk)
		}
	}
	return out
}

func classStanding(c *config.Class, all []learned.Known, rooms []gate.Bytes) api.ClassStanding {
	out := api.ClassStanding{Name: c.Name, Pool: c.Pool, MemoryMB: c.Memory.CeilMiB(), Stateful: c.Stateful, Templates: []api.TemplateStanding{}}
	own := false
	for i := range all {
		if all[i].Class == c.Name {
			own = own || all[i].Template == c.Template
			out.Templates = append(out.Templates, templateStanding(c, &all[i], rooms))
		}
	}
	if !own {
		k := learned.Known{Class: c.Name, Template: c.Template}
		out.Templates = append(out.Templates, templateStanding(c, &k, rooms))
	}
	slices.SortFunc(out.Templates, func(a, b api.TemplateStanding) int { return strings.Compare(a.Template, b.Template) })
	return out
}

func templateStanding(c *config.Class, k *learned.Known, rooms []gate.Bytes) api.TemplateStanding {
	size, e := k.Size, &k.Estimate
	if size == 0 {
		size = c.Memory
	}
	ask := gate.Ask{Memory: size, Stateful: c.Stateful, Rule: c.Rule()}
	prior := gate.Reserve(ask, gate.WorkingSet)
	out := api.TemplateStanding{
		Template: k.Template, State: reserveState(c, e), Runs: k.Runs, Counted: e.Runs, Enough: learn.Enough,
		ConfiguredMB: size.CeilMiB(), PriorMB: prior.CeilMiB(), ReserveMB: prior.CeilMiB(), Judged: e.Judged,
		RanAt: wireTime(k.RanAt), BrokeAt: wireTime(k.BrokeAt),
	}
	if k.Committed > 0 {
		mean, ratio := k.Mean.CeilMiB(), float64(k.Held)/float64(k.Committed)
		out.MeanMB, out.ResidentRatio = &mean, &ratio
	}
	out.WouldAdmit = api.WouldAdmit{Committed: holds(rooms, size), Rule: holds(rooms, max(prior, k.Mean))}
	if e.Learned && !c.Stateful {
		mb, n := e.Reserve.CeilMiB(), holds(rooms, max(e.Reserve, k.Mean))
		predicted, seen := e.Predicted, e.Seen
		out.LearnedMB, out.WouldAdmit.Learned, out.Predicted = &mb, &n, &predicted
		if e.Judged > 0 {
			out.Seen = &seen
		}
		if out.State == api.ReserveStateLearned {
			out.ReserveMB = mb
		}
	}
	return out
}

func reserveState(c *config.Class, e *learn.Estimate) api.ReserveState {
	switch {
	case c.Stateful:
		return api.ReserveStateStateful
	case c.Reserve == config.Fixed:
		return api.ReserveStateFixed
	case e.Broken:
		return api.ReserveStateBroken
	case e.Learned:
		return api.ReserveStateLearned
	}
	return api.ReserveStatePrior
}

// holds is how many of a charge fit on hosts that hold nothing.
func holds(rooms []gate.Bytes, charge gate.Bytes) (n int64) {
	charge = gate.FromMiB(max(charge.CeilMiB(), 1))
	for _, room := range rooms {
		n += int64(room.Positive() / charge)
	}
	return n
}
