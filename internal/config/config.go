// Package config reads the one file that Plimsoll is set up by: what is local to a
// process, and the fleet's document, which the store keeps by generation.
//
// It is strict: whatever it does not understand is a fault with file, line, path, what is
// wrong and what to do about it, and all faults are reported together. Nothing falls back
// to a default because it was misspelt; a default stands only for what was left out.
//
// Worked: `cap: 3O` (a letter) is refused as
//
//	plimsoll.yaml:9: fleet.pools[0].cap: "3O" is no whole number; write digits, as in 30, or the word none
//
// It opens no file and reads no environment by itself. What it returns is plain data, safe
// for concurrent use while nobody writes it.
package config

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// File is one configuration file, checked and with all defaults in place.
type File struct {
	Local Local
	Fleet *Fleet // nil: the file has no fleet section; the store's document is in force
	// FleetDocument is the fleet section in canonical form, "" without one; ParseFleet
	// takes it back, and equal settings give equal bytes.
	FleetDocument string
}

// Local is what one process needs to know for itself. Every setting has an environment
// variable: PLIMSOLL_ and its path, as in PLIMSOLL_HOST_BUDGET.
type Local struct {
	DataDir   string   `yaml:"data_dir"`
	Listen    string   `yaml:"listen"`
	Advertise string   `yaml:"advertise"`  // "": where it listens; see Local.Address
	ReplicaID string   `yaml:"replica_id"` // "": made once and kept in the data directory
	Store     string   `yaml:"store"`      // sqlite, sqlite:/path or postgres://…
	Keys      string   `yaml:"keys"`       // "": keys.json in the data directory; see Local.KeysFile
	Host      *Host    `yaml:"host"`       // nil: no agent in this process
	TLS       *TLS     `yaml:"tls"`        // nil: plaintext, which is for the loopback alone
	Plaintext bool     `yaml:"plaintext"`  // of the API beyond the loopback, as behind a proxy that ends TLS
	Agents    Agents   `yaml:"agents"`     // of a replica
	Agent     *Agent   `yaml:"agent"`      // nil: this process's agent has no replicas elsewhere
	StandIn   *StandIn `yaml:"stand_in"`   // nil: this process stands in for no hosts
	Metrics   string   `yaml:"metrics"`    // where an agent serves them; "": nowhere. A replica serves them with its API
}

// TLS is a process's certificate, and whose it trusts.
type TLS struct {
	Cert string `yaml:"cert" must:"name the file of this process's certificate"`
	Key  string `yaml:"key" must:"name the file of the certificate's private key"`
	CA   string `yaml:"ca" must:"name the file of the authority that signed the certificates of all replicas and agents"`
}

// Agents is how a replica reaches the agents of other machines.
type Agents struct {
	Allow []string `yaml:"allow"` // addresses and prefixes; empty: the loopback; see Local.AllowedAgents
}

// Agent is how an agent in a process of its own finds replicas, and they it.
type Agent struct {
	Listen        string   `yaml:"listen"`          // for replicas' streams
	Advertise     string   `yaml:"advertise"`       // "": where it listens
	Replicas      []string `yaml:"replicas"`        // addresses of the API; any that answers will do
	JoinTokenFile string   `yaml:"join_token_file"` // needed until the host has its credential
}

// StandIn is set up by whoever has hosts that cannot run an agent, and post heartbeats.
type StandIn struct {
	Listen    string   `yaml:"listen"`     // for their reports
	TokenFile string   `yaml:"token_file"` // of the token that they send
	Hosts     []string `yaml:"hosts"`      // their ids
}

// Host is what a host's agent is set up by.
type Host struct {
	ID               string            `yaml:"id"` // "": the machine's name; see Local.HostID
	Mode             gate.Mode         `yaml:"mode"`
	Enforcement      host.Enforcement  `yaml:"enforcement"`
	Budget           gate.Bytes        `yaml:"budget"`   // 0: what the machine has
	Headroom         gate.Bytes        `yaml:"headroom"` // 0: gate.DefaultHeadroom of the limits
	BootWithin       time.Duration     `yaml:"boot_within"`
	MaxStarts        int               `yaml:"max_starts"` // 0: twice the cores
	MaxWaitingStarts int               `yaml:"max_waiting_starts"`
	StopGrace        time.Duration     `yaml:"stop_grace"`
	StreamRestore    bool              `yaml:"stream_restore"`
	Labels           map[string]string `yaml:"labels"`     // name -> value
	Dimensions       map[string]int64  `yaml:"dimensions"` // name -> capacity
	SampleLimits     time.Duration     `yaml:"sample_limits"`
	SampleSandboxes  time.Duration     `yaml:"sample_sandboxes"`
	CgroupParent     string            `yaml:"cgroup_parent"` // "": plimsoll/ and the id; see Local.AgentCgroup
	PSI              PSI               `yaml:"psi"`
	Dwell            time.Duration     `yaml:"dwell"`
	MaxDwell         time.Duration     `yaml:"max_dwell"`
	Socket           string            `yaml:"socket"`        // "": agent.sock in the data directory; see Local.AgentSocket
	ReserveGroup     string            `yaml:"reserve_group"` // "": root and the agent's user alone reserve at the socket
	Observe          Observe           `yaml:"observe"`
	OutOfGate        OutOfGate         `yaml:"out_of_gate"` // what becomes of what Observe finds and nobody tracked
	Reclaim          *host.Reclaim     `yaml:"reclaim"`     // nil: see Host.reclaim
	Hooks            Hooks             `yaml:"hooks"`
}

// Observe says what an agent takes for a sandbox that it did not boot itself: one that only
// observes, and one that looks for what runs without a ticket.
type Observe struct {
	CgroupParent string     `yaml:"cgroup_parent"`  // each cgroup below it is one; "": none
	Match        string     `yaml:"match"`          // a regular expression on executables and command lines; "": none
	SizePattern  string     `yaml:"size_pattern"`   // its group is the configured size on a command line; "": qemu's -m
	Stateful     string     `yaml:"stateful_match"` // on names and command lines of those that keep state; "": none
	DefaultSize  gate.Bytes `yaml:"default_size"`   // configured size where nothing says it; 0: not known
}

// Hooks are what an operator has done when a bet is lost, and when the intake moves.
type Hooks struct {
	Hibernate    Hook `yaml:"hibernate"`
	Stop         Hook `yaml:"stop"`
	IntakeShut   Hook `yaml:"intake_shut"`
	IntakeOpened Hook `yaml:"intake_opened"`
}

// Hook is a command, an address to be told, or both, in that order; neither: there is none.
type Hook struct {
	Exec    []string      `yaml:"exec"` // no shell: the first is the program, by its absolute path
	Webhook string        `yaml:"webhook"`
	Within  time.Duration `yaml:"within"` // for both
}

// PSI are the marks of the kernel's pressure figures.
type PSI struct {
	SomeShut Percent `yaml:"some_shut"`
	SomeOpen Percent `yaml:"some_open"`
	FullLost Percent `yaml:"full_lost"`
}

// Fleet is the document for the whole fleet. Its lists are sorted by name.
type Fleet struct {
	Ceiling          Limit            `yaml:"ceiling"`
	Pools            []Pool           `yaml:"pools" must:"list at least one pool, as in: pools: [{name: default, cap: none}]"`
	Classes          []Class          `yaml:"classes" must:"list at least one class with its name, pool and memory"`
	DefaultQuota     Limit            `yaml:"default_quota" must:"state how many sandboxes a tenant without a quota of its own may hold: a whole number or the word none"`
	Quotas           []Quota          `yaml:"quotas"`
	QuotaEnforcement pool.Enforcement `yaml:"quota_enforcement" omit:"empty"`
	Consumers        []Consumer       `yaml:"consumers"`

	// What one tenant starts of one template within one window peaks together: so many of it
	// on one host, while others fit. Unset: see CohortRule.
	CohortPerHost Limit         `yaml:"cohort_per_host" omit:"unset"`
	CohortWindow  time.Duration `yaml:"cohort_window" omit:"unset"`
}

// Pool is a cap that classes share, and the length of its line.
type Pool struct {
	Name        string           `yaml:"name" must:"give the pool a name"`
	Placement   Placement        `yaml:"placement"`
	Cap         Limit            `yaml:"cap" must:"state the cap: a whole number or the word none"`
	Enforcement pool.Enforcement `yaml:"enforcement" omit:"empty"`
	MaxWaiting  int64            `yaml:"max_waiting"`
	Shares      []Share          `yaml:"shares"`

	// Of a pool without hosts.
	Audience  string        `yaml:"audience" omit:"empty"`
	SlotTTL   time.Duration `yaml:"slot_ttl" omit:"empty"`
	TicketTTL time.Duration `yaml:"ticket_ttl" omit:"empty"`
}

// Share is a part of a pool: of one consumer, or of the classes of one priority.
type Share struct {
	Consumer string `yaml:"consumer" omit:"empty"`
	Priority int    `yaml:"priority" omit:"unset"` // unset: of a consumer
	Reserved int64  `yaml:"reserved"`
	Max      Limit  `yaml:"max"`
}

// Class is a named kind of sandbox.
type Class struct {
	Name            string            `yaml:"name" must:"give the class a name"`
	Pool            string            `yaml:"pool" must:"name the pool whose cap it shares"`
	Memory          gate.Bytes        `yaml:"memory"` // must be stated, unless its pool is without hosts
	MinMemory       gate.Bytes        `yaml:"min_memory"`
	MaxMemory       gate.Bytes        `yaml:"max_memory"`
	CPU             Milli             `yaml:"cpu"` // cores
	MinCPU          Milli             `yaml:"min_cpu"`
	MaxCPU          Milli             `yaml:"max_cpu"`
	Record          Record            `yaml:"record" omit:"empty"`
	Stateful        bool              `yaml:"stateful"`
	HoldOnExit      bool              `yaml:"hold_on_exit" omit:"empty"`
	Priority        int               `yaml:"priority"`
	Labels          map[string]string `yaml:"labels"`     // name -> value that a host must carry
	Dimensions      map[string]int64  `yaml:"dimensions"` // name -> how much a sandbox takes
	Reserve         Reserve           `yaml:"reserve" omit:"empty"`
	ReserveFraction Milli             `yaml:"reserve_fraction"`
	ReserveFloor    gate.Bytes        `yaml:"reserve_floor"`
	ReserveUntil    gate.ReserveUntil `yaml:"reserve_until"`
	SettleAfter     time.Duration     `yaml:"settle_after"`
	Template        string            `yaml:"template"`
}

// Quota is the most sandboxes that one tenant may hold at once.
type Quota struct {
	Tenant string `yaml:"tenant" must:"name the tenant"`
	Limit  Limit  `yaml:"limit" must:"state the limit: a whole number or the word none"`
}

// Consumer is an authenticated caller. Identity, roles and tenants come from its token.
type Consumer struct {
	Name   string      `yaml:"name" must:"give the consumer a name"`
	Roles  []Role      `yaml:"roles"`
	Tokens []TokenHash `yaml:"token_sha256"` // nil: left out, see Fleet.KeepTokens; none: nobody can be it
	// Tenants are those it may ask for; AnyTenant for all. Left out, it is the tenant of the
	// consumer's own name alone: a consumer that nobody gave a wider reach cannot spend the
	// quota of others.
	Tenants  []string `yaml:"tenants"`
	PinHosts bool     `yaml:"pin_hosts"`
	// Audiences are those whose tickets it may redeem, in the role substrate.
	Audiences []string `yaml:"audiences"`
}
