package regimes

import (
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/played"
	"github.com/plimsoll-project/plimsoll/internal/workload"
)

// regime is a way to admit.
type regime struct {
	name   string
	mode   gate.Mode
	rule   func(train []workload.Run, configured gate.Bytes) gate.ReserveRule
	hosts  bool // the hosts refuse by their own arithmetic, and reclaim when a bet is lost
	oracle bool
}

// The names of the regimes.
const (
	None      = "none"
	Committed = "committed"
	Essay     = "essay"
	Learned   = "learned"
	Hindsight = "hindsight"
)

func regimesAll() []regime {
	return []regime{
		{name: None, rule: prior},
		{name: Committed, mode: gate.Committed, rule: prior, hosts: true},
		{name: Essay, rule: func([]workload.Run, gate.Bytes) gate.ReserveRule { return played.UntilSettled() }, hosts: true},
		{name: Learned, rule: played.Learned, hosts: true},
		{name: Hindsight, rule: prior, oracle: true},
	}
}

func prior([]workload.Run, gate.Bytes) gate.ReserveRule { return gate.DefaultReserveRule() }

// config is a host's under the regime. One that refuses nothing is one in shadow.
func (r *regime) config(name string) host.Config {
	cfg := host.DefaultConfig(name, cores)
	cfg.Mode, cfg.Reclaim = r.mode, host.ReclaimOn
	if !r.hosts {
		cfg.Enforcement, cfg.Reclaim = host.Shadow, host.ReclaimOff
	}
	return cfg
}

// cores of a host: they bound how many sandboxes start at a time, and score.
const cores = 8

// asks makes of a size what a sandbox of it asks for: what was learned holds in proportion.
type asks struct {
	rule gate.ReserveRule
	of   gate.Bytes // what was learned is of this size
}

func (a *asks) ask(c *create) gate.Ask {
	rule := a.rule
	if rule.Learned > 0 && c.size != a.of {
		rule.Learned = rule.Learned.Scale(int64(c.size), int64(a.of))
	}
	return gate.Ask{Class: "agent", Memory: c.size, CPUMilli: c.cpu, Rule: rule}
}
