package control

import (
	"slices"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/registry"
	"github.com/plimsoll-project/plimsoll/table"
)

// Admittable is what each host can still promise, as this replica last heard it: for
// schedulers of others, which look and do not ask. Nobody is asked for it, so it is cheap. With
// a class it says of each host as well whether it takes one of that.
func (g *Gateway) Admittable(class string) (api.AdmittableList, error) {
	var ask gate.Ask
	if class != "" {
		var err error
		if ask, err = g.askOfClass(class); err != nil {
			return api.AdmittableList{}, err
		}
	}
	out := api.AdmittableList{At: g.Wall().UTC(), Class: class, Hosts: []api.Admittable{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	ids := append(sortedKeys(g.hosts), sortedKeys(g.known.hosts)...)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if !g.isBuried(id) {
			out.Hosts = append(out.Hosts, g.admittable(id, class, &ask))
		}
	}
	return out, nil
}

// askOfClass is what a class takes that says nothing of its size.
func (g *Gateway) askOfClass(name string) (gate.Ask, error) {
	fleet := g.Fleet()
	if fleet == nil {
		return gate.Ask{}, api.Refuse(api.Unavailable, "no configuration is in force")
	}
	c, ok := fleet.Class(name)
	switch {
	case !ok:
		return gate.Ask{}, api.Refuse(api.UnknownClass, "no class %q is configured", name)
	case fleet.WithoutHosts(c):
		return gate.Ask{}, api.Refuse(api.InvalidRequest, "class: %s is of a pool without hosts", name)
	}
	ask, _, err := c.Ask(nil, nil, "", nil)
	g.teach(c, &ask)
	return ask, err
}

// admittable is one host's word; g.mu must be held.
func (g *Gateway) admittable(id, class string, ask *gate.Ask) api.Admittable {
	out := api.Admittable{
		ID: id, State: api.HostState(registry.Active), Intake: api.Intake(host.IntakeOpen.String()),
		Mode: api.ChargeMode(gate.WorkingSet.String()),
	}
	if h, ok := g.known.hosts[id]; ok {
		out.State, out.Mode = api.HostState(h.State), api.ChargeMode(h.Bounds.Mode.String())
	}
	if a := g.hosts[id]; a != nil && a.heard {
		ms := (g.Now() - a.heardAt).Milliseconds()
		v := &a.verdict
		out.HeardMSAgo, out.AdmittableMB = &ms, v.Admittable.FloorMiB()
		out.Intake, out.Mode = api.Intake(v.Intake.String()), api.ChargeMode(v.Mode.String())
		out.Stamp = api.Stamp{Incarnation: v.Incarnation, Sequence: v.Sequence}
		if class != "" {
			need := gate.Need(*ask, v.Mode)
			fits := int64(v.Admittable / max(need, gate.MiB))
			out.NeedMB, out.Fits = need.CeilMiB(), &fits
		}
	}
	why := g.whyNot(id, ask)
	if out.Candidate = why == table.Candidate; !out.Candidate {
		out.WhyNot = why.String()
		if out.Fits != nil {
			*out.Fits = 0
		}
	}
	return out
}

// whyNot is the table's own word on one host; g.mu must be held.
func (g *Gateway) whyNot(id string, ask *gate.Ask) table.Reason {
	y := g.table.Explain(g.Now(), ask, &table.PickOptions{Require: id}, 0)
	for r, n := range y.Counts {
		if n > 0 {
			return table.Reason(r)
		}
	}
	return table.Unheard
}
