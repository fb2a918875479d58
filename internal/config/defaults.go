package config

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// Every default of the file stands here. Those that depend on other settings are left
// open (unset) until derive; those of the machine until Local.HostConfig and its like.

const unset = math.MinInt64 // no file can say it

const (
	placesPerSlot    = 10   // max_waiting, of a pool with a cap
	placesOfUncapped = 1000 // of one without
)

func (l *Local) defaults() {
	*l = Local{DataDir: "/var/lib/plimsoll", Listen: "127.0.0.1:7070", Store: "sqlite"}
}

func (s *StandIn) defaults() { *s = StandIn{Listen: "127.0.0.1:7073"} }

func (a *Agent) defaults() { *a = Agent{Listen: "127.0.0.1:7071"} }

func (h *Host) defaults() {
	d, m, hook := host.DefaultConfig("", 0), pressure.DefaultMarks(), Hook{Within: 2 * time.Second}
	*h = Host{
		Mode: d.Mode, BootWithin: d.BootWithin, MaxWaitingStarts: d.MaxWaitingStarts,
		StopGrace:    10 * time.Second,
		SampleLimits: 50 * time.Millisecond, SampleSandboxes: time.Second,
		PSI:   PSI{SomeShut: Percent(m.SomeShut), SomeOpen: Percent(m.SomeOpen), FullLost: Percent(m.FullLost)},
		Dwell: m.Dwell, MaxDwell: m.MaxDwell, OutOfGate: AlarmOutOfGate,
		Hooks: Hooks{Hibernate: hook, Stop: hook, IntakeShut: hook, IntakeOpened: hook},
	}
}

func (f *Fleet) defaults() {
	*f = Fleet{Ceiling: None, DefaultQuota: None, CohortPerHost: unset, CohortWindow: unset}
}

func (p *Pool) defaults() {
	*p = Pool{Placement: OnHost, MaxWaiting: unset, SlotTTL: unset, TicketTTL: unset}
}

func (s *Share) defaults() { *s = Share{Priority: unset, Max: None} }

func (c *Class) defaults() {
	rule := gate.DefaultReserveRule()
	*c = Class{
		Memory: unset, MinMemory: unset, MaxMemory: unset, CPU: 1000, MinCPU: unset, MaxCPU: unset,
		ReserveFraction: Milli(rule.Permille), ReserveFloor: rule.Floor,
		ReserveUntil: rule.Until, SettleAfter: rule.SettleAfter,
	}
}

func (c *Consumer) defaults() { *c = Consumer{Roles: []Role{RoleConsumer}} }

// derive fills what follows from other settings.
func (f *Fleet) derive() {
	for i := range f.Pools {
		f.Pools[i].derive()
	}
	for i := range f.Classes {
		f.Classes[i].derive(f.WithoutHosts(&f.Classes[i]))
	}
	for i := range f.Consumers {
		f.Consumers[i].derive()
	}
}

// sort puts the lists in order; in a file their order means nothing.
func (f *Fleet) sort() {
	for i := range f.Consumers {
		f.Consumers[i].sort()
	}
	for _, p := range f.Pools {
		slices.SortStableFunc(p.Shares, Share.compare)
	}
	slices.SortStableFunc(f.Pools, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(f.Classes, func(a, b Class) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(f.Quotas, func(a, b Quota) int { return strings.Compare(a.Tenant, b.Tenant) })
	slices.SortStableFunc(f.Consumers, func(a, b Consumer) int { return strings.Compare(a.Name, b.Name) })
}

func (p *Pool) derive() {
	switch {
	case p.MaxWaiting != unset:
	case p.Cap == None:
		p.MaxWaiting = placesOfUncapped
	default:
		p.MaxWaiting = placesPerSlot * int64(p.Cap)
	}
	slot, ticket := time.Duration(0), time.Duration(0)
	if p.Placement == NoHost {
		p.Audience, slot, ticket = cmp.Or(p.Audience, p.Name), pool.DefaultSlotTTL, pool.DefaultTicketTTL
	}
	p.SlotTTL = orElse(p.SlotTTL, slot)
	p.TicketTTL = orElse(p.TicketTTL, min(ticket, p.SlotTTL))
}

// derive leaves the memory of a class open where hosts must know it and nobody said it.
func (c *Class) derive(withoutHosts bool) {
	if c.Memory == unset && withoutHosts {
		c.Memory = max(c.MinMemory, 0)
	}
	c.MinMemory, c.MaxMemory = orElse(c.MinMemory, c.Memory), orElse(c.MaxMemory, c.Memory)
	c.MinCPU, c.MaxCPU = orElse(c.MinCPU, c.CPU), orElse(c.MaxCPU, c.CPU)
	if c.Template == "" {
		c.Template = c.Name
	}
}

func (c *Consumer) derive() {
	if len(c.Tenants) == 0 {
		c.Tenants = []string{c.Name}
	}
}

func (c *Consumer) sort() {
	slices.Sort(c.Roles)
	slices.Sort(c.Tenants)
	slices.Sort(c.Audiences)
	slices.SortFunc(c.Tokens, func(a, b TokenHash) int { return slices.Compare(a[:], b[:]) })
}

// compare puts the shares of consumers first.
func (s Share) compare(t Share) int {
	if (s.Consumer == "") != (t.Consumer == "") {
		return strings.Compare(t.Consumer, s.Consumer)
	}
	return cmp.Or(strings.Compare(s.Consumer, t.Consumer), cmp.Compare(t.Priority, s.Priority))
}

func orElse[T gate.Bytes | Milli | time.Duration](v, other T) T {
	if v == unset {
		return other
	}
	return v
}

// Default is what plimsoll up starts with when there is no file: one pool without a cap,
// three sizes of stateless sandboxes and one of databases, no quota and no consumer.
func Default(hostID string) *File {
	var f File
	f.Local.defaults()
	f.Local.Host = new(Host)
	f.Local.Host.defaults()
	f.Local.Host.ID = hostID
	f.Fleet = new(Fleet)
	f.Fleet.defaults()
	f.Fleet.Pools = make([]Pool, 1)
	f.Fleet.Pools[0].defaults()
	f.Fleet.Pools[0].Name, f.Fleet.Pools[0].Cap = "default", None
	f.Fleet.Classes = []Class{
		defaultClass("small", 512*gate.MiB, false),
		defaultClass("medium", 2*gate.GiB, false),
		defaultClass("large", 4*gate.GiB, false),
		defaultClass("database", 2*gate.GiB, true),
	}
	f.Fleet.derive()
	f.Fleet.sort()
	f.FleetDocument = f.Fleet.Document()
	return &f
}

func defaultClass(name string, memory gate.Bytes, stateful bool) Class {
	var c Class
	c.defaults()
	c.Name, c.Pool, c.Memory, c.Stateful = name, "default", memory, stateful
	return c
}
