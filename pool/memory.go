package pool

import (
	"cmp"
	"maps"
	"slices"
)

// memory is the books of Model, in the simplest form that can be right: no count is kept,
// rows are looked through each time. Only two things are remembered, for simulations of
// large fleets: which rows can still count, and what tenants use until a row changes.
type memory struct {
	settings *Settings            // nil until limits are loaded
	rows     map[string]*Row      // id -> admission
	warm     map[string]*Row      // those of rows that have not ended, or freed a slot lately
	byKey    map[[2]string]string // consumer, key -> id
	place    map[string]int64     // pool -> last place handed out
	use      map[string]int64     // tenant -> slots held; nil since a row changed
	seq      int64                // last number of the sequence
	now      Time

	freed     map[string]int64 // pool -> slots that admissions gave back, ever
	orders    Orders
	overrides map[string]Override // pool -> set by an operator
	pulse     Pulse
	leases    map[string]Time // host -> last heard
	buried    map[string]bool // host -> it is
}

func newMemory() *memory {
	return &memory{
		rows: map[string]*Row{}, warm: map[string]*Row{}, byKey: map[[2]string]string{}, place: map[string]int64{},
		freed: map[string]int64{}, overrides: map[string]Override{}, orders: NewOrders(), leases: map[string]Time{}, buried: map[string]bool{},
	}
}

func (m *memory) Now() Time { return m.now }

func (m *memory) Next() int64 {
	m.seq++
	return m.seq
}

func (m *memory) NextPlace(pool string) int64 {
	m.place[pool]++
	return m.place[pool]
}

func (m *memory) Loaded() bool { return m.settings != nil }

func (m *memory) Limits(pool string) (Limits, bool) {
	if m.settings == nil {
		return Limits{}, false
	}
	l, ok := m.settings.Pools[pool]
	return l, ok
}

func (m *memory) Override(pool string) Override { return m.overrides[pool] }

func (m *memory) PutOverride(pool string, o Override) { m.overrides[pool] = o }

func (m *memory) Orders() *Orders { return &m.orders }

func (m *memory) PutOrder(t Target, o Order) { m.orders.Put(t, o) }

func (m *memory) QuotaEnforcement() Enforcement { return m.settings.QuotaEnforcement }

func (m *memory) Pools() []string { return slices.Sorted(maps.Keys(m.settings.Pools)) }

func (m *memory) Ceiling() int64 { return m.settings.Ceiling }

func (m *memory) Pulse() Pulse {
	p := m.pulse
	p.Gap = GapFor(m.settings.ShortestLife())
	return p
}

func (m *memory) PutPulse(p Pulse) { m.pulse = p }

func (m *memory) Silent() (silent, of int) { return m.Pulse().Silent(m.Leases(), m.now) }

func (m *memory) Leases() map[string]Lease {
	out := make(map[string]Lease, len(m.leases))
	for name, heard := range m.leases {
		out[name] = Lease{HeardAt: heard}
	}
	for _, r := range m.warm {
		MarkHolding(out, r)
	}
	return out
}

func (m *memory) Buried() []string { return slices.Sorted(maps.Keys(m.buried)) }

func (m *memory) Quota(tenant string) int64 {
	if q, ok := m.settings.Quotas[tenant]; ok {
		return q
	}
	return m.settings.DefaultQuota
}

func (m *memory) Use(tenant string) int64 {
	if m.use == nil {
		m.use = map[string]int64{}
		for _, r := range m.warm {
			if r.State.HoldsSlot() {
				m.use[r.Tenant]++
			}
		}
	}
	return m.use[tenant]
}

func (m *memory) Tally(pool string) Tally {
	var t Tally
	for id, r := range m.warm {
		switch {
		case r.State.Ended() && !r.freedLately(m.now):
			delete(m.warm, id) // it counts for nothing from now on
		case r.Pool == pool:
			t.Count(r, m.now, 1)
		}
	}
	return t
}

func (m *memory) Held(pool string) map[Holder]int64 {
	held := map[Holder]int64{}
	for _, r := range m.warm {
		if r.Pool == pool && r.State.HoldsSlot() {
			held[r.Holder()]++
		}
	}
	return held
}

func (m *memory) CountFreed(pool string) { m.freed[pool]++ }

func (m *memory) Line(pool string) []*Row {
	var line []*Row
	for _, r := range m.warm {
		if r.Pool == pool && r.State == Waiting {
			line = append(line, r)
		}
	}
	slices.SortFunc(line, func(a, b *Row) int { return cmp.Compare(a.Place, b.Place) })
	return line
}

func (m *memory) Mark(*Row) {} // rows out of Line are the stored ones

func (m *memory) Find(consumer, key string) *Row { return m.rows[m.byKey[[2]string{consumer, key}]] }

func (m *memory) ByID(id string) *Row { return m.rows[id] }

func (m *memory) Put(r *Row) {
	m.use = nil
	m.rows[r.ID], m.warm[r.ID] = r, r
	m.byKey[[2]string{r.Consumer, r.Key}] = r.ID
}

func (m *memory) Remove(r *Row) {
	m.use = nil
	delete(m.rows, r.ID)
	delete(m.warm, r.ID)
	delete(m.byKey, [2]string{r.Consumer, r.Key})
}
