package config

import (
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// Settings are the limits that the store enforces.
func (f *Fleet) Settings() pool.Settings {
	s := pool.Settings{
		Pools: map[string]pool.Limits{}, Quotas: map[string]int64{},
		DefaultQuota: int64(f.DefaultQuota), Ceiling: int64(f.Ceiling),
		QuotaEnforcement: f.QuotaEnforcement,
	}
	for i := range f.Pools {
		s.Pools[f.Pools[i].Name] = f.Pools[i].limits()
	}
	for _, q := range f.Quotas {
		s.Quotas[q.Tenant] = int64(q.Limit)
	}
	return s
}

// Where a document does not say how many of one cohort.
const (
	DefaultCohortPerHost = 8
	DefaultCohortWindow  = time.Minute
)

// CohortRule returns how many of one cohort started within which window are put on one host
// while others fit: 8 within 60 s unless it is said, and 0 for no rule. It is not written into
// a document that does not say it, which an older version can so still read.
func (f *Fleet) CohortRule() (perHost int, window time.Duration) {
	perHost, window = DefaultCohortPerHost, DefaultCohortWindow
	switch f.CohortPerHost {
	case unset:
	case None:
		perHost = 0
	default:
		perHost = int(f.CohortPerHost)
	}
	if f.CohortWindow != unset {
		window = f.CohortWindow
	}
	return perHost, window
}

func (p *Pool) limits() pool.Limits {
	l := pool.Limits{
		Cap: int64(p.Cap), MaxWaiting: p.MaxWaiting, Enforcement: p.Enforcement,
		Audience: p.Audience, SlotTTL: p.SlotTTL, TicketTTL: p.TicketTTL,
	}
	for _, s := range p.Shares {
		share := pool.Share{Consumer: s.Consumer, Reserved: s.Reserved}
		if s.Consumer == "" {
			share.Priority = int64(s.Priority)
		}
		if s.Max != None {
			share.Max = int64(s.Max)
		}
		l.Shares = append(l.Shares, share)
	}
	return l
}

// Pool returns the pool of a name.
func (f *Fleet) Pool(name string) (*Pool, bool) {
	for i := range f.Pools {
		if f.Pools[i].Name == name {
			return &f.Pools[i], true
		}
	}
	return nil, false
}

// AnyWithoutHosts says whether some pool needs no host of ours.
func (f *Fleet) AnyWithoutHosts() bool {
	return slices.ContainsFunc(f.Pools, func(p Pool) bool { return p.Placement == NoHost })
}

// WithoutHosts says whether what is admitted of a class needs no host of ours.
func (f *Fleet) WithoutHosts(c *Class) bool {
	p, ok := f.Pool(c.Pool)
	return ok && p.Placement == NoHost
}

// Class returns the class of a name.
func (f *Fleet) Class(name string) (*Class, bool) {
	for i := range f.Classes {
		if f.Classes[i].Name == name {
			return &f.Classes[i], true
		}
	}
	return nil, false
}

// ByHosts are the names of a pool's classes that hosts alone record.
func (f *Fleet) ByHosts(poolName string) []string {
	var names []string
	for i := range f.Classes {
		if c := &f.Classes[i]; c.Pool == poolName && c.Record == ByHost {
			names = append(names, c.Name)
		}
	}
	return names
}

// HasAudience says whether some pool has the audience.
func (f *Fleet) HasAudience(name string) bool { return slices.Contains(f.audiences(), name) }
