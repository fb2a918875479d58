package control

import (
	"cmp"
	"slices"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/explain"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// facts are what a no, or a place in the line, rests on.
func (c call) facts(a *admission.Answer, r *api.Refusal) *explain.Facts {
	g, claim := c.gateway, &c.claim
	f := g.bareFacts(r, c.who)
	f.Request, f.Tenant, f.Ask, f.RetryAfter = c.asked(), claim.Contents.Tenant, c.ask, r.RetryAfter
	f.Hosts = g.hostsFor(claim.Contents.Host != "" && !claim.Contents.Prefer)
	f.Pool = g.poolFacts(claim.Pool, &a.Standing)
	f.Host = a.Row.Host
	f.WaitingFor = string(a.Row.WaitingFor)
	if len(a.Tally[string(host.LacksLabel)]) > 0 && len(f.Request.Labels) > 0 {
		f.UnlabeledFits = g.fitsUnlabeled(&c.claim, c.pin.Require)
	}
	if r.Figures.ElsewhereFits != nil {
		f.ElsewhereFits = *r.Figures.ElsewhereFits
	}
	if fleet := g.Fleet(); fleet != nil {
		if class, ok := fleet.Class(claim.Contents.Class); ok {
			f.Bounds, f.ByHost = boundsOf(class), class.Record == config.ByHost
		}
	}
	return f
}

// bareFacts are those of a no that rests on its code alone.
func (g *Gateway) bareFacts(r *api.Refusal, who *config.Consumer) *explain.Facts {
	f := &explain.Facts{Code: r.Code, Scope: r.Scope, Detail: r.Detail}
	if who != nil {
		f.Consumer, f.Tenants = who.Name, who.Tenants
		for _, role := range who.Roles {
			f.Roles = append(f.Roles, string(role))
		}
	} else if fleet := g.Fleet(); fleet != nil {
		for i := range fleet.Consumers {
			if c := &fleet.Consumers[i]; c.Has(config.RoleConsumer) { // whoever sent this wanted to ask
				f.Known = append(f.Known, c.Name)
			}
		}
	}
	return f
}

// fitsUnlabeled says whether some host, or the one that is required, has room once the request itself
// demands no label.
func (g *Gateway) fitsUnlabeled(c *pool.Claim, require string) bool {
	plain := c.Contents
	plain.Labels = ""
	ask := g.askOf(pool.Row{Contents: plain})
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.table.Pick(g.Now(), &ask, &table.PickOptions{Require: require})
	return ok
}

// asked is the request as it came, or what its row was made of. Its receipt is nobody's business.
func (c call) asked() api.AdmissionRequest {
	if c.request != nil {
		q := *c.request
		q.Receipt = ""
		return q
	}
	t := &c.claim.Contents
	cpu := float64(t.CPUMilli) / 1000
	return api.AdmissionRequest{
		Key: c.key, Class: t.Class, Tenant: t.Tenant, Template: t.Template, Mode: api.WaitMode(c.claim.Mode),
		MemoryMB: &t.MemoryMB, CPU: &cpu, Labels: labelsOf(t.Labels), Host: pinOfContents(t),
	}
}

// poolFacts are how a pool stood.
func (g *Gateway) poolFacts(name string, s *pool.Standing) explain.Pool {
	p := explain.Pool{Name: name, Configured: pool.Unlimited, Standing: *s}
	if fleet := g.Fleet(); fleet != nil {
		if configured, ok := fleet.Pool(name); ok {
			p.WithoutHosts = configured.Placement == config.NoHost
		}
		if ceiling := ceilingOf(fleet); ceiling != nil {
			p.Ceiling, p.Caps = *ceiling, capsOf(fleet, name, s.Cap)
		}
	}
	if n := g.configuredCap(name); n != nil {
		p.Configured = *n
	}
	return p
}

// capsOf sums the caps of the configuration, but for one pool's, whose is known as it is in force.
func capsOf(f *config.Fleet, name string, inForce int64) (sum int64) {
	for i := range f.Pools {
		p := &f.Pools[i]
		switch n := int64(p.Cap); {
		case p.Name == name && inForce > 0:
			sum += inForce
		case p.Cap != config.None:
			sum += n
		}
	}
	return sum
}

// hostsFor is how many hosts could be asked.
func (g *Gateway) hostsFor(one bool) int {
	if one {
		return 1
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.table.Len()
}

func boundsOf(c *config.Class) explain.Bounds {
	return explain.Bounds{
		LeastMemoryMB: c.MinMemory.CeilMiB(), MostMemoryMB: c.MaxMemory.FloorMiB(),
		LeastCPU: int64(c.MinCPU), MostCPU: int64(c.MaxCPU),
	}
}

// evidence is what there was to see of the hosts; nil where none was looked at.
func (c call) evidence(a *admission.Answer) *Evidence {
	if len(a.Tally) == 0 {
		return nil
	}
	return &Evidence{Excluded: exclusions(a.Tally), Near: c.gateway.near(c.claim.Contents.Kind(), &c.ask, &c.pin, c.began)}
}

// exclusions are a tally with the first few hosts of each reason.
func exclusions(t admission.Tally) []explain.Exclusion {
	out := make([]explain.Exclusion, 0, len(t))
	for _, reason := range t.Reasons() {
		if ids := t[reason]; reason != admission.Excluded {
			some := slices.Clone(ids[:min(len(ids), mostExcluded)])
			slices.Sort(some)
			out = append(out, explain.Exclusion{Reason: reason, Count: len(ids), Hosts: some})
		}
	}
	return out
}

// mostExcluded is how many hosts of a reason are kept by name; all of them are counted.
const mostExcluded = 32

// misasked are the facts of a request that came to no passage.
func (g *Gateway) misasked(r *api.Refusal, who *config.Consumer, q *api.AdmissionRequest) *explain.Facts {
	f := g.bareFacts(r, who)
	f.Request, f.Tenant = *q, cmp.Or(q.Tenant, who.Name)
	f.Request.Receipt = ""
	fleet := g.Fleet()
	if fleet == nil {
		return f
	}
	class, ok := fleet.Class(q.Class)
	if !ok {
		f.Known = classNames(fleet)
		return f
	}
	f.ByHost = class.Record == config.ByHost
	f.Bounds, f.Pool = boundsOf(class), g.poolFacts(class.Pool, &pool.Standing{})
	return f
}

// impossible are the facts of a request that no host could ever hold.
func (g *Gateway) impossible(r *api.Refusal, who *config.Consumer, q *api.AdmissionRequest, d *driving) (*explain.Facts, *Evidence) {
	f := g.misasked(r, who, q)
	f.Tenant, f.Ask, f.Hosts = d.req.Claim.Contents.Tenant, d.req.Ask, g.hostsFor(d.pin.Require != "")
	if len(q.Labels) > 0 {
		f.UnlabeledFits = g.fitsUnlabeled(&d.req.Claim, d.pin.Require)
	}
	near := g.near(d.req.Claim.Contents.Kind(), &d.req.Ask, &d.pin, g.Now())
	return f, &Evidence{Near: near}
}
