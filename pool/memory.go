package pool

import (
	"cmp"
	"slices"
)

// memory is the books of Model: it keeps no count and no index that could go wrong, and
// looks through all rows each time.
type memory struct {
	settings *Settings            // nil until limits are loaded
	rows     map[string]*Row      // id -> admission
	byKey    map[[2]string]string // consumer, key -> id
	place    map[string]int64     // pool -> last place handed out
	seq      int64                // last number of the sequence
	now      Time
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
	l, ok := m.settings.Pools[pool]
	return l, ok
}

func (m *memory) Quota(tenant string) int64 {
	if q, ok := m.settings.Quotas[tenant]; ok {
		return q
	}
	return m.settings.DefaultQuota
}

func (m *memory) Use(tenant string) int64 {
	var n int64
	for _, r := range m.rows {
		if r.Tenant == tenant && r.State.HoldsSlot() {
			n++
		}
	}
	return n
}

func (m *memory) Tally(pool string) Tally {
	var t Tally
	for _, r := range m.rows {
		if r.Pool == pool {
			t.Count(r, m.now, 1)
		}
	}
	return t
}

func (m *memory) Line(pool string) []*Row {
	var line []*Row
	for _, r := range m.rows {
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
	m.rows[r.ID] = r
	m.byKey[[2]string{r.Consumer, r.Key}] = r.ID
}

func (m *memory) Remove(r *Row) {
	delete(m.rows, r.ID)
	delete(m.byKey, [2]string{r.Consumer, r.Key})
}
