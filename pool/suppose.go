package pool

// Suppose is a store in memory as a real one stood at a moment: for asking what claims would get
// that nobody makes. The rows are those that count: what holds a slot or a place, of the pools and
// tenants that are asked about.
func Suppose(s Settings, overrides map[string]Override, orders Orders, rows []Row, now Time) *Model {
	m := NewModel()
	m.Advance(now)
	m.Configure(s)
	for name, o := range overrides {
		m.mem.PutOverride(name, o)
	}
	m.mem.orders = orders.clone()
	for i := range rows {
		r := rows[i]
		m.mem.Put(&r)
		m.mem.place[r.Pool] = max(m.mem.place[r.Pool], r.Place)
		m.mem.seq = max(m.mem.seq, r.Gen, r.Epoch)
	}
	return m
}
