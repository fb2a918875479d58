package pool

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Settings are the global limits: what the configuration puts into the store.
type Settings struct {
	Pools            map[string]Limits // name -> bounds
	Quotas           map[string]int64  // tenant -> most slots held at once
	DefaultQuota     int64             // of tenants not named; Unlimited for none
	QuotaEnforcement Enforcement       // of all of them
	Ceiling          int64             // what the caps may sum to; Unlimited, or zero, for none
}

// ShortestLife is the shortest that a slot without a host lives in any pool; zero: no pool is
// without hosts, or no limits are loaded.
func (s *Settings) ShortestLife() (shortest time.Duration) {
	if s == nil {
		return 0
	}
	for _, l := range s.Pools {
		if l.Audience == "" {
			continue
		}
		if l.fill(); shortest == 0 || l.SlotTTL < shortest {
			shortest = l.SlotTTL
		}
	}
	return shortest
}

// Model is the store in memory: every transition that a real store must equal, over
// books in the simplest form that can be right. Not safe for concurrent use.
type Model struct {
	Clerk
	mem *memory
}

// NewModel returns an empty store without limits, which admits nothing.
func NewModel() *Model {
	mem := newMemory()
	return &Model{Clerk: NewClerk(mem), mem: mem}
}

// Advance moves the store's clock, never backwards.
func (m *Model) Advance(now Time) { m.mem.now = max(m.mem.now, now) }

// Now is the store's clock.
func (m *Model) Now() Time { return m.mem.now }

// Configure puts new limits in force. A lowered cap evicts nobody.
func (m *Model) Configure(s Settings) { m.mem.settings = &s }

// OverCeiling says by how much the caps would pass the ceiling, were these limits in force.
func (m *Model) OverCeiling(s Settings) int64 { return s.OverCeiling(m.mem.overrides, m.mem.now) }

// Orders are those that stand.
func (m *Model) Orders() Orders { return m.mem.orders.clone() }

// Freed counts by pool the slots that admissions gave back, ever.
func (m *Model) Freed() map[string]int64 { return maps.Clone(m.mem.freed) }

// HearHost renews a host's lease, if it is due. It says whether it was.
func (m *Model) HearHost(name string) bool {
	if !Renews(m.mem.leases[name], m.mem.now) {
		return false
	}
	m.mem.leases[name] = m.mem.now
	return true
}

// HeardSince says since when somebody could hear without a gap, as the pulse was last written.
func (m *Model) HeardSince() Time { return m.mem.pulse.HeardSince }

// BuryHost takes a host for gone, with all that it holds.
func (m *Model) BuryHost(name string) {
	delete(m.mem.leases, name)
	m.mem.buried[name] = true
}

// AdmitHost takes a host for a new one; its lease begins.
func (m *Model) AdmitHost(name string) {
	delete(m.mem.buried, name)
	m.mem.leases[name] = m.mem.now
}

// Next takes a number from the store's sequence.
func (m *Model) Next() int64 { return m.mem.Next() }

// Get returns an admission by its consumer and key.
func (m *Model) Get(consumer, key string) (Row, bool) { return copied(m.mem.Find(consumer, key)) }

// ByID returns an admission by its id.
func (m *Model) ByID(id string) (Row, bool) { return copied(m.mem.ByID(id)) }

func copied(r *Row) (Row, bool) {
	if r == nil {
		return Row{}, false
	}
	return *r, true
}

// Rows returns every admission, by id.
func (m *Model) Rows() []Row {
	out := make([]Row, 0, len(m.mem.rows))
	for _, id := range slices.Sorted(maps.Keys(m.mem.rows)) {
		out = append(out, *m.mem.rows[id])
	}
	return out
}

// OnHosts returns every admission that a host holds, by host and id.
func (m *Model) OnHosts() map[string][]Row {
	held := map[string][]Row{}
	for _, id := range slices.Sorted(maps.Keys(m.mem.warm)) {
		if r := m.mem.warm[id]; r.State.OnHost() {
			held[r.Host] = append(held[r.Host], *r)
		}
	}
	return held
}

// Sweep is the clerk's, over every row.
func (m *Model) Sweep() []Row { return m.Clerk.Sweep(slices.Collect(maps.Keys(m.mem.rows))) }

// Line is what a pool shows: who holds and who waits.
type Line struct {
	Name     string
	Limits   Limits // with the cap in force
	Override Override
	Busy     int64
	Running  int64 // of those, booted and not known to have ended
	Waiting  int64
	Held     map[Holder]int64 // sums to Busy
}

// Lines returns every pool, by name.
func (m *Model) Lines() []Line {
	if m.mem.settings == nil {
		return nil
	}
	var out []Line
	for name := range m.mem.settings.Pools {
		l, _ := m.limits(name)
		line := Line{Name: name, Limits: l, Busy: m.mem.Tally(name).Busy, Waiting: int64(len(m.mem.Line(name))), Held: m.mem.Held(name)}
		if o := m.mem.Override(name); o.InForce(m.mem.now) {
			line.Override = o
		}
		for _, r := range m.mem.rows {
			if r.Pool == name && r.State == Running {
				line.Running++
			}
		}
		out = append(out, line)
	}
	slices.SortFunc(out, func(a, b Line) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
