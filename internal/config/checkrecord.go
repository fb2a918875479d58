package config

import "fmt"

// checkRecord proves that nothing has to be counted of a class that its hosts alone record:
// no cap, no share, no quota of any tenant who may ask for it, and nothing that must outlive
// a host. A tenant's quota bounds all that it holds, in every class, so there is none at all
// beside such a class: one that leaves out a class would be no bound.
func (r *report) checkRecord(at func(string) string, here string, c *Class, f *Fleet) {
	if c.Record != ByHost {
		return
	}
	record := here + ".record"
	const otherwise = "or leave record out, and the store keeps its admissions"
	if c.Stateful {
		r.relation([]string{record, here + ".stateful"}, "what is stateful must be known when its host is not there; remove stateful, %s", otherwise)
	}
	for i := range f.Pools {
		if p := &f.Pools[i]; p.Name == c.Pool {
			r.checkUncounted(at(fmt.Sprintf("pools[%d]", i)), record, p, otherwise)
		}
	}
	if f.DefaultQuota != None {
		r.relation([]string{record, at("default_quota")}, "a default_quota of %s must be counted, and no host can; write default_quota: none, %s", f.DefaultQuota, otherwise)
	}
	for i, q := range f.Quotas {
		if q.Limit != None {
			r.relation([]string{record, at(fmt.Sprintf("quotas[%d].limit", i))}, "the quota of tenant %q must be counted, and no host can; remove it, %s", short(q.Tenant), otherwise)
		}
	}
}

// checkUncounted proves that a pool bounds nothing.
func (r *report) checkUncounted(pool, record string, p *Pool, otherwise string) {
	switch {
	case p.Placement == NoHost:
		r.relation([]string{record, pool + ".placement"}, "pool %q is without hosts, so no host keeps a record; leave record out", p.Name)
	case p.Cap != None:
		r.relation([]string{record, pool + ".cap"}, "pool %q has a cap of %s, which must be counted, and no host can; put the class in a pool with cap: none, %s", p.Name, p.Cap, otherwise)
	case len(p.Shares) > 0:
		r.relation([]string{record, pool + ".shares"}, "pool %q has shares, which must be counted, and no host can; put the class in a pool without, %s", p.Name, otherwise)
	}
}
