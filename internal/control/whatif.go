package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/explain"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// MostWhatIf is how many one question may be about.
const MostWhatIf = 1000

// WhatIf is POST /v1/whatif: the rule of the pool and the pick, on copies.
func (g *Gateway) WhatIf(ctx context.Context, who *config.Consumer, q api.WhatIfRequest) (api.WhatIf, error) {
	if q.Count < 1 || q.Count > MostWhatIf {
		return api.WhatIf{}, api.Refuse(api.InvalidRequest, "count: %d is not between 1 and %d", q.Count, MostWhatIf)
	}
	s, err := g.suppose(ctx, who, &q)
	if err != nil {
		return api.WhatIf{}, g.refused(err, who, q.Class, "")
	}
	out := api.WhatIf{At: g.Wall().UTC(), Class: q.Class, Pool: s.class.Pool, Count: q.Count}
	for out.Fits < q.Count {
		if out.Next = s.admit(out.Fits); out.Next != nil {
			break
		}
		out.Fits++
	}
	out.Hosts = s.placed()
	return out, nil
}

// supposed is what a question is asked of.
type supposed struct {
	gateway *Gateway
	fleet   *config.Fleet
	who     *config.Consumer
	class   *config.Class
	request api.AdmissionRequest
	ask     gate.Ask
	claim   pool.Claim
	model   *pool.Model
	table   *table.Table
	cohort  table.Cohort
	at      map[string]int64 // host -> how many were put there
}

func (g *Gateway) suppose(ctx context.Context, who *config.Consumer, q *api.WhatIfRequest) (*supposed, error) {
	fleet := g.Fleet()
	if fleet == nil {
		return nil, api.Refuse(api.Unavailable, "no configuration is in force yet; apply one with plimsoll config apply")
	}
	s := &supposed{gateway: g, fleet: fleet, who: who, at: map[string]int64{}}
	if q.Consumer != "" {
		var ok bool
		if s.who, ok = fleet.Consumer(q.Consumer); !ok {
			return nil, api.Refuse(api.InvalidRequest, "consumer: the configuration names no %q", q.Consumer)
		}
	}
	s.request = api.AdmissionRequest{Key: "what-if", Class: q.Class, Tenant: q.Tenant, MemoryMB: q.MemoryMB, CPU: q.CPU, Template: q.Template, Labels: q.Labels}
	req, _, err := g.request(s.who, s.request)
	if err != nil {
		return nil, err
	}
	s.ask, s.claim = req.Ask, req.Claim
	s.class, _ = fleet.Class(q.Class)
	if s.cohort = table.CohortOf(s.claim.Contents.Tenant, s.ask.Template); s.ask.Stateful {
		s.cohort = 0
	}
	if !req.ByHost {
		if s.model, err = g.supposeStore(ctx, fleet, &s.claim); err != nil {
			g.failed(err, "call", "what if")
			return nil, api.Refuse(api.Unavailable, "the store could not be read")
		}
	}
	if !g.withoutHosts(s.class.Pool) {
		s.table = g.supposeHosts(q.WithoutHosts)
	}
	return s, nil
}

// supposeStore copies what of the store's rows counts for a claim.
func (g *Gateway) supposeStore(ctx context.Context, fleet *config.Fleet, c *pool.Claim) (*pool.Model, error) {
	lines, rows, err := g.occupied(ctx, Filter{})
	if err != nil {
		return nil, err
	}
	orders, err := g.Store.Orders(ctx)
	if err != nil {
		return nil, err
	}
	now, err := g.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	overrides := map[string]pool.Override{}
	for _, l := range lines {
		overrides[l.Name] = l.Override
	}
	rows = slices.DeleteFunc(rows, func(r pool.Row) bool { return r.Pool != c.Pool && r.Tenant != c.Contents.Tenant })
	return pool.Suppose(fleet.Settings(), overrides, orders, rows, now), nil
}

// supposeHosts copies the table without some hosts. The copy has no share: it is asked alone, and
// what it is charged with counts once.
func (g *Gateway) supposeHosts(without []string) *table.Table {
	g.mu.Lock()
	t := g.table.Copy()
	g.mu.Unlock()
	for _, id := range without {
		t.Forget(id)
	}
	t.SetReplicas("", nil)
	return t
}

// admit lets one more in, or says why not.
func (s *supposed) admit(n int64) *api.WhatIfStop {
	if stop := s.hopeless(); stop != nil {
		return stop
	}
	var standing pool.Standing
	if s.model != nil {
		c := s.claim
		c.ID, c.Key = fmt.Sprint("what if ", n), fmt.Sprint("what if ", n) // no key of anybody's
		got := s.model.Claim(c)
		if standing = got.Standing; got.Verdict != pool.Granted {
			return s.stop(admission.FromVerdict(got))
		}
	}
	if s.table == nil {
		return nil
	}
	opts := table.PickOptions{Rand: s.gateway.Rand(), Cohort: s.cohort}
	choice, ok := s.table.Pick(s.gateway.Now(), &s.ask, &opts)
	if !ok {
		tally := tallyOf(s.table.Explain(s.gateway.Now(), &s.ask, &opts, s.table.Len()))
		return s.stop(admission.Answer{Code: tally.Code(), Standing: standing, Tally: tally, Row: pool.Row{Pool: s.class.Pool}})
	}
	s.table.Charge(choice.Ref, &s.ask, s.cohort)
	s.at[choice.Host]++
	return nil
}

// hopeless is what is refused before anything is claimed.
func (s *supposed) hopeless() *api.WhatIfStop {
	switch {
	case s.table == nil:
		return nil
	case s.table.Len() == 0:
		return s.stop(admission.Answer{Code: api.NoHealthyAgents, Row: pool.Row{Pool: s.class.Pool}})
	case s.table.Feasible(&s.ask) || s.unmeasured():
		return nil
	}
	return s.stop(admission.Answer{Code: api.Infeasible, Row: pool.Row{Pool: s.class.Pool}, Detail: s.ask.Memory.String() + " of memory, its labels or dimensions are more than any of these hosts could hold, were it empty"})
}

func (s *supposed) unmeasured() bool {
	s.gateway.mu.Lock()
	defer s.gateway.mu.Unlock()
	return s.gateway.anyUnmeasured()
}

// stop explains what stands in the way of the next one, as a decision would.
func (s *supposed) stop(a admission.Answer) *api.WhatIfStop {
	g, now := s.gateway, s.gateway.Now()
	a.Row.Tenant = s.claim.Contents.Tenant
	c := call{gateway: g, who: s.who, ask: s.ask}
	r := &api.Refusal{Code: a.Code, Detail: cmp.Or(a.Detail, c.explain(a))}
	d := Decision{Facts: g.misasked(r, s.who, &s.request), Evidence: &Evidence{Excluded: exclusions(a.Tally)}}
	f := d.Facts
	f.Tenant, f.Ask, f.Pool = s.claim.Contents.Tenant, s.ask, g.poolFacts(s.class.Pool, &a.Standing)
	if s.table != nil {
		f.Hosts, d.Evidence.Near = s.table.Len(), s.table.Near(now, &s.ask, &table.PickOptions{}, nearHosts)
		bare := s.class.AskOf(s.bare())
		_, fits := s.table.Pick(now, &bare, &table.PickOptions{})
		f.UnlabeledFits = fits && len(s.request.Labels) > 0
	}
	x := d.explained()
	return &api.WhatIfStop{Code: a.Code, Line: x.Line, Nearest: x.Nearest, Excluded: append([]api.DecisionExclusion{}, x.Excluded...), Changes: ofWhatIf(x.Changes)}
}

// bare is what is asked for without the labels that the request itself demands.
func (s *supposed) bare() pool.Contents {
	c := s.claim.Contents
	c.Labels = ""
	return c
}

// ofWhatIf leaves out what changes nothing of a question: neither time nor a place in a line.
func ofWhatIf(all []api.Change) []api.Change {
	out := []api.Change{}
	for _, c := range all {
		if c.Kind != string(explain.Wait) && c.Kind != string(explain.QueueUp) {
			out = append(out, c)
		}
	}
	return out
}

// placed lists where they were put, those with the most first.
func (s *supposed) placed() []api.WhatIfHost {
	out := []api.WhatIfHost{}
	for host, n := range s.at {
		out = append(out, api.WhatIfHost{Host: host, Count: n})
	}
	slices.SortFunc(out, func(a, b api.WhatIfHost) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Host, b.Host))
	})
	return out
}
