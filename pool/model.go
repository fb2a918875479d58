package pool

import (
	"cmp"
	"slices"
	"time"
)

// Settings are the global limits: what the configuration puts into the store.
type Settings struct {
	Pools        map[string]Limits // name -> bounds
	Quotas       map[string]int64  // tenant -> most slots held at once
	DefaultQuota int64             // of tenants not named; Unlimited for none
}

// Model is the store in memory: every transition that a real store must equal, in the
// simplest form that can be right. Not safe for concurrent use.
type Model struct {
	settings *Settings            // nil until limits are loaded
	rows     map[string]*Row      // id -> admission
	byKey    map[[2]string]string // consumer, key -> id
	place    map[string]int64     // pool -> last place handed out
	seq      int64                // last number of the sequence
	now      Time
}

// NewModel returns an empty store without limits, which admits nothing.
func NewModel() *Model {
	return &Model{rows: map[string]*Row{}, byKey: map[[2]string]string{}, place: map[string]int64{}}
}

// Advance moves the store's clock, never backwards.
func (m *Model) Advance(now Time) { m.now = max(m.now, now) }

// Now is the store's clock.
func (m *Model) Now() Time { return m.now }

// Configure puts new limits in force. A lowered cap evicts nobody.
func (m *Model) Configure(s Settings) { m.settings = &s }

// Next takes a number from the store's sequence.
func (m *Model) Next() int64 {
	m.seq++
	return m.seq
}

// Claim finds or makes the row of a key and gives it a slot, a place or a no.
func (m *Model) Claim(c Claim) Claimed {
	if m.settings == nil {
		return Claimed{Verdict: NotLoaded}
	}
	old := m.find(c.Consumer, c.Key)
	if v, ok := Before(old, c, m.now); ok {
		return m.answer(v, old)
	}
	if old != nil && !old.State.Ended() {
		return m.reclaim(old, c)
	}
	limits, ok := m.settings.Pools[c.Pool]
	if !ok {
		return Claimed{Verdict: NoSuchPool}
	}
	r := NewRow(old, c, m.now)
	return m.decide(&r, c, m.standing(&r, limits))
}

// reclaim tries again for a waiter, or takes over a placing whose replica was lost.
func (m *Model) reclaim(r *Row, c Claim) Claimed {
	if r.TooOld(m.now) {
		r.GiveUp(m.now)
		return m.answer(PatienceOut, r)
	}
	if r.State == Placing {
		r.Grant(m.now, m.Next())
		return m.answer(Granted, r)
	}
	return m.decide(r, c, m.standing(r, m.settings.Pools[r.Pool]))
}

// decide applies the rule to a row that holds no slot.
func (m *Model) decide(r *Row, c Claim, s Standing) Claimed {
	v := Decide(s, r.Mode, r.Waited)
	if v != Granted && v != Queued {
		return Claimed{Verdict: v, Row: *r, Standing: s}
	}
	if r.Mode == Queue && r.Place == 0 {
		m.place[r.Pool]++
		r.Place = m.place[r.Pool]
	}
	if v == Granted {
		m.passOver(r, s)
		r.Grant(m.now, m.Next())
	} else {
		r.Wait(m.now, s.Lacks(), c.Present)
	}
	m.rows[r.ID] = r
	m.byKey[[2]string{r.Consumer, r.Key}] = r.ID
	return Claimed{Verdict: v, Row: *r, Standing: s}
}

// passOver marks the absent waiters that this grant goes by: from now on they count only
// while they are there, so that one dead waiter costs its pool Grace once, not for ever.
func (m *Model) passOver(r *Row, s Standing) {
	spared := s.graceSlots()
	for _, w := range m.ahead(r) {
		if !m.absent(w) {
			continue
		}
		if spared--; spared < 0 {
			w.Late = true
		}
	}
}

// standing counts what a claim of row r sees.
func (m *Model) standing(r *Row, l Limits) Standing {
	s := Standing{Limits: l, QuotaLimit: m.quota(r.Tenant), QuotaUse: m.use(r.Tenant), Position: 1}
	for _, o := range m.rows {
		if o.Pool != r.Pool || o.ID == r.ID {
			continue
		}
		s.count(o, m.now)
	}
	kinds := map[string]bool{} // kind -> has a present waiter lately without a host
	for _, w := range m.ahead(r) {
		s.Position++
		switch {
		case m.atQuota(w.Tenant):
		case m.absent(w):
			s.Absent++
		case !w.present(m.now):
		case !w.hostless(m.now):
			s.Present++
		case w.Kind() == r.Kind():
			s.SameHostless++
		default:
			kinds[w.Kind()] = true
		}
	}
	s.HostlessKind = int64(len(kinds))
	if r.FreedAt != 0 && m.now.Since(r.FreedAt) < Grace {
		s.FreedLately++
	}
	return s
}

// count adds one other row of the pool.
func (s *Standing) count(o *Row, now Time) {
	if o.State.HoldsSlot() {
		s.Busy++
	}
	if o.State == Waiting || (o.State == Placing && o.Waited) {
		s.InLine++
	}
	if o.FreedAt != 0 && now.Since(o.FreedAt) < Grace {
		s.FreedLately++
	}
}

// ahead returns the waiters before r in its pool's line, in order; a row without a
// place is behind them all.
func (m *Model) ahead(r *Row) []*Row {
	var line []*Row
	for _, w := range m.rows {
		if w.Pool == r.Pool && w.ID != r.ID && w.State == Waiting && (r.Place == 0 || w.Place < r.Place) {
			line = append(line, w)
		}
	}
	slices.SortFunc(line, func(a, b *Row) int { return cmp.Compare(a.Place, b.Place) })
	return line
}

// absent says whether a waiter is away, but not yet passed over nor lately without a host.
func (m *Model) absent(w *Row) bool {
	return !w.present(m.now) && !w.Late && !w.hostless(m.now) && !m.atQuota(w.Tenant)
}

func (m *Model) quota(tenant string) int64 {
	if q, ok := m.settings.Quotas[tenant]; ok {
		return q
	}
	return m.settings.DefaultQuota
}

func (m *Model) use(tenant string) int64 {
	var n int64
	for _, o := range m.rows {
		if o.Tenant == tenant && o.State.HoldsSlot() {
			n++
		}
	}
	return n
}

func (m *Model) atQuota(tenant string) bool {
	q := m.quota(tenant)
	return q != Unlimited && m.use(tenant) >= q
}

func (m *Model) find(consumer, key string) *Row {
	return m.rows[m.byKey[[2]string{consumer, key}]]
}

func (m *Model) answer(v Verdict, r *Row) Claimed {
	if r == nil {
		return Claimed{Verdict: v}
	}
	return Claimed{Verdict: v, Row: *r}
}

// Regen gives a placing a new generation; zero when it no longer is at the old one.
func (m *Model) Regen(id string, gen int64) int64 {
	r := m.rows[id]
	if r == nil || r.State != Placing || r.Gen != gen {
		return 0
	}
	r.Regen(m.now, gen, m.Next())
	return r.Gen
}

// Settle writes the placement that a host promised.
func (m *Model) Settle(id string, gen int64, host string, reservedFor time.Duration) (Row, bool) {
	r := m.rows[id]
	if r == nil {
		return Row{}, false
	}
	ok := r.Settle(m.now, gen, host, m.now.Add(reservedFor))
	return *r, ok
}

// NoRoom takes back a grant for which no host was found: Queued, QueueFull (the line was
// full for a newcomer), PoolFull (refuse mode; the row is gone), or PatienceOut. It is
// NoSuchKey when the placing is no longer at that generation.
func (m *Model) NoRoom(id string, gen int64, hostless bool, present time.Duration) Claimed {
	r := m.rows[id]
	if r == nil || r.State != Placing || r.Gen != gen {
		return Claimed{Verdict: NoSuchKey}
	}
	s := m.standing(r, m.settings.Pools[r.Pool])
	if !r.NoRoom(m.now, hostless, s.InLine >= s.MaxWaiting, present) {
		m.remove(r)
		v := PoolFull
		if r.Mode == Queue {
			v = QueueFull
		}
		return Claimed{Verdict: v, Row: *r, Standing: s}
	}
	if r.State == TimedOut {
		return Claimed{Verdict: PatienceOut, Row: *r, Standing: s}
	}
	return Claimed{Verdict: Queued, Row: *r, Standing: s}
}

func (m *Model) remove(r *Row) {
	delete(m.rows, r.ID)
	delete(m.byKey, [2]string{r.Consumer, r.Key})
}

// Attend notes how far ahead a waiter's long poll is held; zero: it hung up.
func (m *Model) Attend(id string, present time.Duration) bool {
	r := m.rows[id]
	if r == nil || r.State != Waiting {
		return false
	}
	r.Attend(m.now, present)
	return true
}

// Move places an unbooted admission anew, once its host acknowledged the release or the
// reservation there must have lapsed.
func (m *Model) Move(id string, epoch int64, acknowledged bool) (Row, bool) {
	r := m.rows[id]
	if r == nil || r.State != Admitted || r.Epoch != epoch {
		return m.get(r), false
	}
	if !acknowledged && m.now <= r.ReservedUntil {
		return *r, false
	}
	return *r, r.Move(m.now, epoch, m.Next())
}

// Renew writes how long the reservation will last, before the host is asked to keep it.
func (m *Model) Renew(id string, epoch int64, reservedFor time.Duration) (Row, bool) {
	r := m.rows[id]
	if r == nil {
		return Row{}, false
	}
	ok := r.Renew(epoch, m.now.Add(reservedFor))
	return *r, ok
}

// Track writes that the boot was seen.
func (m *Model) Track(id string, epoch int64) bool {
	r := m.rows[id]
	return r != nil && r.Track(m.now, epoch)
}

// Leave begins a release; ok is false when there is no such admission.
func (m *Model) Leave(id string) (Row, bool) {
	r := m.rows[id]
	if r == nil {
		return Row{}, false
	}
	r.Leave(m.now)
	return *r, true
}

// End writes an end; again asks the host to repeat it, because its placing is not settled yet.
func (m *Model) End(id string, epoch int64, to State, reason string) (written, again bool) {
	r := m.rows[id]
	if r == nil {
		return false, false
	}
	return r.End(m.now, epoch, to, reason)
}

// Get returns an admission by its consumer and key.
func (m *Model) Get(consumer, key string) (Row, bool) {
	r := m.find(consumer, key)
	return m.get(r), r != nil
}

// ByID returns an admission by its id.
func (m *Model) ByID(id string) (Row, bool) {
	r := m.rows[id]
	return m.get(r), r != nil
}

func (m *Model) get(r *Row) Row {
	if r == nil {
		return Row{}
	}
	return *r
}

// Rows returns every admission, by id.
func (m *Model) Rows() []Row {
	out := make([]Row, 0, len(m.rows))
	for _, r := range m.rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Row) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Sweep undoes placings whose replica was lost, ends waiters that are out of patience,
// and forgets rows that ended a day ago. It returns what it changed, as it is now.
func (m *Model) Sweep() []Row {
	var changed []Row
	for _, r := range m.Rows() {
		if m.sweep(m.rows[r.ID]) {
			changed = append(changed, *m.swept(r.ID, r))
		}
	}
	return changed
}

func (m *Model) sweep(r *Row) bool {
	switch {
	case r.State == Placing && m.now.Since(r.PlacingAt) >= PlacingFor:
		if !r.NoRoom(m.now, false, false, 0) {
			m.remove(r)
		}
		return true
	case r.TooOld(m.now):
		r.GiveUp(m.now)
		return true
	case r.State.Ended() && m.now.Since(r.EndedAt) >= KeepEnded:
		m.remove(r)
		return true
	}
	return false
}

// swept returns the row as the sweep left it; one that it removed is told as released.
func (m *Model) swept(id string, was Row) *Row {
	if r := m.rows[id]; r != nil {
		return r
	}
	was.end(m.now, Released, "removed by the sweep")
	return &was
}

// Line is what a pool shows: who holds and who waits.
type Line struct {
	Name    string
	Limits  Limits
	Busy    int64
	Waiting int64
}

// Lines returns every pool, by name.
func (m *Model) Lines() []Line {
	if m.settings == nil {
		return nil
	}
	var out []Line
	for name, l := range m.settings.Pools {
		line := Line{Name: name, Limits: l}
		for _, r := range m.rows {
			if r.Pool == name && r.State.HoldsSlot() {
				line.Busy++
			}
			if r.Pool == name && r.State == Waiting {
				line.Waiting++
			}
		}
		out = append(out, line)
	}
	slices.SortFunc(out, func(a, b Line) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
