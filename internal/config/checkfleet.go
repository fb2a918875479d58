package config

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// settle fills what follows from other settings and proves the relations. Paths name
// places in the file, so the lists are put in order only afterwards.
func (r *report) settle(path string, f *Fleet) {
	f.derive()
	at := func(key string) string { return join(path, key) }
	r.checkPools(at, f)
	r.checkClasses(at, f)
	r.checkQuotas(at, f)
	r.checkCohorts(at, f)
	r.checkConsumers(at, f)
	f.sort()
}

// unique reports the second of two equal names.
func (r *report) unique(seen map[string]string, path, name, what string) {
	first, twice := seen[name]
	switch {
	case twice:
		r.relation([]string{path, first}, "%s %q stands twice, first on line %d; remove or rename one", what, short(name), r.lineOf(first))
	case name != "":
		seen[name] = path
	}
}

func (r *report) checkPools(at func(string) string, f *Fleet) {
	seen := map[string]string{} // name -> path
	paths := []string{at("pools"), at("ceiling")}
	var sum int64
	for i := range f.Pools {
		p, here := &f.Pools[i], at(fmt.Sprintf("pools[%d]", i))
		r.checkName(here+".name", p.Name)
		r.unique(seen, here+".name", p.Name, "the pool")
		if p.MaxWaiting < 0 {
			r.relation([]string{here + ".max_waiting", here + ".cap"}, "is below zero; write 0 or more")
		}
		r.checkPlacement(here, p)
		r.checkShares(here, p, f)
		paths = append(paths, here+".cap")
		sum += max(int64(p.Cap), 0)
	}
	if f.Ceiling == None || len(f.Pools) == 0 {
		return
	}
	if sum > int64(f.Ceiling) {
		r.relation(append([]string{at("ceiling")}, paths...), "the caps sum to %d and the ceiling is %s; lower caps by %d or raise the ceiling", sum, f.Ceiling, sum-int64(f.Ceiling))
	}
}

func (r *report) checkClasses(at func(string) string, f *Fleet) {
	pools := map[string]*Pool{} // name -> pool
	paths := []string{at("pools")}
	for i := range f.Pools {
		pools[f.Pools[i].Name] = &f.Pools[i]
		paths = append(paths, at(fmt.Sprintf("pools[%d].name", i)))
	}
	seen := map[string]string{} // name -> path
	for i := range f.Classes {
		c, here := &f.Classes[i], at(fmt.Sprintf("classes[%d]", i))
		r.checkName(here+".name", c.Name)
		r.unique(seen, here+".name", c.Name, "the class")
		switch p := pools[c.Pool]; {
		case p == nil:
			r.relation(append([]string{here + ".pool"}, paths...), "there is no pool %q; name one of fleet.pools or add it there", short(c.Pool))
		case f.Ceiling != None && p.Cap == None:
			r.relation([]string{here + ".pool", at("ceiling")}, "pool %q has no cap, and with a ceiling of %s every class must be in a pool with one; give the pool a cap", short(c.Pool), f.Ceiling)
		}
		r.checkHolding(here, c, pools[c.Pool])
		r.checkRecord(at, here, c, f)
		r.checkMemory(here, c, pools[c.Pool])
		r.checkBounds(here, c)
		r.checkReserve(here, c)
		r.checkLabels(here+".labels", c.Labels)
		r.checkCounts(here+".dimensions", c.Dimensions)
	}
}

func (r *report) wholeMiB(path string, b gate.Bytes) {
	if b%gate.MiB != 0 {
		r.relation([]string{path}, "%s is no whole number of MiB, in which requests ask; round it", formatBytes(b))
	}
}

const maxPriority = 1_000_000

// checkMemory proves that a host would know what to set aside. Without hosts memory bounds
// nothing: it is what a ticket tells its substrate.
func (r *report) checkMemory(here string, c *Class, p *Pool) {
	if c.Memory == unset {
		if p != nil { // else it is not known whether it must be said
			r.relation([]string{here + ".memory"}, "is missing; state what a request gets by default, as in 512MiB")
		}
		return
	}
	r.wholeMiB(here+".memory", c.Memory)
	if c.MinMemory != c.Memory {
		r.wholeMiB(here+".min_memory", c.MinMemory)
	}
	if c.MaxMemory != c.Memory {
		r.wholeMiB(here+".max_memory", c.MaxMemory)
	}
	if c.Memory == 0 && len(c.Dimensions) == 0 && (p == nil || p.Placement != NoHost) {
		r.relation([]string{here + ".memory"}, "is zero, so any number would fit; write a size, or say in dimensions what the class takes instead")
	}
	if c.MinMemory > c.Memory || c.Memory > c.MaxMemory {
		r.relation([]string{here + ".memory", here + ".min_memory", here + ".max_memory"}, "%s is not within min_memory %s and max_memory %s; widen the bounds or move it between them", formatBytes(c.Memory), formatBytes(c.MinMemory), formatBytes(c.MaxMemory))
	}
}

func (r *report) checkBounds(here string, c *Class) {
	if c.MinCPU > c.CPU || c.CPU > c.MaxCPU {
		r.relation([]string{here + ".cpu", here + ".min_cpu", here + ".max_cpu"}, "%s is not within min_cpu %s and max_cpu %s; widen the bounds or move it between them", cores(c.CPU), cores(c.MinCPU), cores(c.MaxCPU))
	}
	if c.Priority > maxPriority || c.Priority < -maxPriority {
		r.relation([]string{here + ".priority"}, "%d is out of bounds; write a whole number from -%d to %d", c.Priority, maxPriority, maxPriority)
	}
}

func cores(m Milli) string { return formatDecimal(int64(m), 3) }

func (r *report) checkReserve(here string, c *Class) {
	if c.ReserveFraction <= 0 || c.ReserveFraction > 1000 {
		r.relation([]string{here + ".reserve_fraction"}, "%s is no fraction; write a number above 0 and up to 1, as in 0.25", cores(c.ReserveFraction))
	}
	if !templatePattern.MatchString(c.Template) {
		r.relation([]string{here + ".template", here + ".name"}, "%q is no template; write 1 to 64 of A-Z a-z 0-9 . _ -", short(c.Template))
	}
}

func (r *report) checkCohorts(at func(string) string, f *Fleet) {
	if n := f.CohortPerHost; n == 0 || n > mostOfCohort && n != None {
		r.relation([]string{at("cohort_per_host")}, "%s is out of bounds; write a whole number from 1 to %d, or none for no rule", f.CohortPerHost, mostOfCohort)
	}
	if f.CohortWindow != unset {
		r.between(at("cohort_window"), f.CohortWindow, time.Second, time.Hour)
	}
}

const mostOfCohort = 10_000

func (r *report) checkQuotas(at func(string) string, f *Fleet) {
	seen := map[string]string{} // tenant -> path
	for i, q := range f.Quotas {
		here := at(fmt.Sprintf("quotas[%d].tenant", i))
		r.checkName(here, q.Tenant)
		r.unique(seen, here, q.Tenant, "the tenant")
	}
}

func (r *report) checkConsumers(at func(string) string, f *Fleet) {
	names := map[string]string{}     // name -> path
	tokens := map[TokenHash]string{} // token -> path
	for i := range f.Consumers {
		c, here := &f.Consumers[i], at(fmt.Sprintf("consumers[%d]", i))
		r.checkName(here+".name", c.Name)
		r.unique(names, here+".name", c.Name, "the consumer")
		for j, t := range c.Tokens {
			r.token(tokens, t, fmt.Sprintf("%s.token_sha256[%d]", here, j))
		}
		for j, t := range c.Tenants {
			if t != AnyTenant && t != c.Name {
				r.checkName(fmt.Sprintf("%s.tenants[%d]", here, j), t)
			}
		}
		if len(c.Roles) == 0 {
			r.relation([]string{here + ".roles"}, "is empty; list at least one, or remove the consumer")
		}
		r.checkAudiences(here, c, f)
	}
}

// token reports an empty token, which every caller has, and one that stands twice; the
// hash itself is not repeated.
func (r *report) token(seen map[TokenHash]string, t TokenHash, path string) {
	if t == sha256.Sum256(nil) {
		r.relation([]string{path}, "is the SHA-256 of nothing: the variable was empty when it was hashed; hash the token itself")
		return
	}
	if first, twice := seen[t]; twice {
		r.relation([]string{path, first}, "is the token of line %d as well, so it would name two callers; give each a token of its own", r.lineOf(first))
		return
	}
	seen[t] = path
}
