package explain

import (
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// Facts are what a no rested on, as they stood when it was said. What does not apply is left
// at its zero: where nobody counted a pool's slots its Standing.Position is 0, and where nobody
// looked through the fleet there is nothing Excluded.
type Facts struct {
	Code   api.Code
	Scope  api.Scope // empty: the code's
	Detail string    // as the refusal said it; of a never it begins with the field and a colon

	Consumer string
	Roles    []string             // of the consumer
	Tenants  []string             // of the consumer
	Request  api.AdmissionRequest // as it came; of an attempt or a heartbeat, what the row was made of
	Tenant   string               // the request's, or its consumer's own
	Ask      gate.Ask             // what the request comes to, with its class's words
	Bounds   Bounds               // of the class
	ByHost   bool                 // hosts record the class, so that it has no queue
	Known    []string             // what there is: classes, of unknown_class; consumers, of unauthenticated

	Hosts    int          // registered, or 1 where one was required
	Excluded []Exclusion  // in the order of Reason
	Near     []table.Room // as Table.Near finds them: a few, those with the most room first
	Pool     Pool

	ElsewhereFits bool // of a host that the request required: another had room
	UnlabeledFits bool // without the labels that the request itself demands, some host had room

	WaitingFor string        // slot, host or quota: of a place in the line
	Host       string        // on which the key's admission rests already
	RetryAfter time.Duration // the appointment that was made
}

// Bounds are the sizes that a class takes.
type Bounds struct {
	LeastMemoryMB, MostMemoryMB int64 // MostMemoryMB 0: it is not sized by memory
	LeastCPU, MostCPU           int64 // thousandths of a core
}

// Exclusion is the hosts that were not asked, or said no, for one reason: a word of package
// admission's tally, a dimension's with its name behind a colon.
type Exclusion struct {
	Reason string   `json:"reason"`
	Count  int      `json:"count"`
	Hosts  []string `json:"hosts"` // the first few
}

// Pool is how the request's pool stood, and its tenant.
type Pool struct {
	Name         string
	WithoutHosts bool  // whoever boots demands the tickets
	Configured   int64 // its cap in the configuration, beside what an operator set; pool.Unlimited for none
	// Ceiling is the account's, over the caps in force, which sum to Caps; 0 for none.
	Ceiling, Caps int64
	pool.Standing
}

// What a claim can lack.
const (
	forSlot  = pool.ForSlot
	forHost  = pool.ForHost
	forQuota = pool.ForQuota
)

// lacks is what kept the request from its admission, where that is not its code alone.
func (f *Facts) lacks() string {
	if f.WaitingFor != "" {
		return f.WaitingFor
	}
	if f.Pool.Position == 0 { // nobody counted
		return ""
	}
	return f.Pool.Lacks()
}

// hosts are those that were left out for a reason.
func (f *Facts) hosts(reason string) []string {
	for _, x := range f.Excluded {
		if x.Reason == reason {
			return x.Hosts
		}
	}
	return nil
}

// pinned is the host that the request demands, or "".
func (f *Facts) pinned() string {
	if p := f.Request.Host; p != nil && p.Mode == api.HostPinModeRequire {
		return p.ID
	}
	return ""
}
