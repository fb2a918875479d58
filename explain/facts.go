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
	Detail string // as the refusal said it; of a never it begins with the field and a colon

	Consumer string
	Request  api.AdmissionRequest // as it came; of an attempt or a heartbeat, what the row was made of
	Tenant   string               // the request's, or its consumer's own
	Ask      gate.Ask             // what the request comes to, with its class's words
	Bounds   Bounds               // of the class
	Known    []string             // classes of the configuration, of unknown_class; consumers of it, of unauthenticated

	Hosts    int          // registered, or 1 where one was required
	Excluded []Exclusion  // in the order of Reason
	Near     []table.Room // as Table.Near finds them: a few, those with the most room first
	Pool     Pool

	// ElsewhereFits says of a host that the request required whether another had room.
	ElsewhereFits bool

	State      pool.State    // of the admission that the key stands for already
	Host       string        // on which that rests
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
	pool.Standing
}
