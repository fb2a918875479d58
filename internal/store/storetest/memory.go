package storetest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/hindsight"
	"github.com/plimsoll-project/plimsoll/internal/learned"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
)

// Memory is pool.Model as a control.Store: the specification itself, for comparison, and
// for tests of others that need no file. It may be used concurrently.
type Memory struct {
	clock func() pool.Time

	mu       sync.Mutex // guards all below
	model    *pool.Model
	configs  []control.Config // of generation 1 and on
	deeds    []control.Deed
	noted    map[string]bool // origin of a deed -> it is in deeds
	replicas map[string]control.Replica
	hosts    map[string]registry.Host
	tokens   map[registry.Digest]registry.Token
	version  int64 // of the registry
	docket   hindsight.Docket
	lore     *learned.Book
	minutes  []minuted // decisions, the oldest first
}

var _ control.Store = (*Memory)(nil)

// NewMemory returns an empty store that is dated by clock.
func NewMemory(clock func() pool.Time) *Memory {
	return &Memory{
		clock: clock, model: pool.NewModel(), noted: map[string]bool{}, replicas: map[string]control.Replica{},
		hosts: map[string]registry.Host{}, tokens: map[registry.Digest]registry.Token{},
		docket: hindsight.Docket{Cases: map[hindsight.ID]*hindsight.Case{}}, lore: learned.NewBook(),
	}
}

// in takes the lock and moves the clock.
func (m *Memory) in() func() {
	m.mu.Lock()
	m.model.Advance(m.clock())
	return m.mu.Unlock
}

// Check proves the model's invariants.
func (m *Memory) Check() error {
	defer m.in()()
	return m.model.CheckInvariants()
}

// Claim implements control.Store.
func (m *Memory) Claim(_ context.Context, c pool.Claim) (pool.Claimed, error) {
	defer m.in()()
	before, _ := m.model.Get(c.Consumer, c.Key)
	answer := m.model.Claim(c)
	after, _ := m.model.Get(c.Consumer, c.Key)
	return answer, m.keepYes(before, &after)
}

// Regen implements control.Store.
func (m *Memory) Regen(_ context.Context, id string, gen int64) (int64, error) {
	defer m.in()()
	return m.model.Regen(id, gen), nil
}

// Settle implements control.Store.
func (m *Memory) Settle(_ context.Context, id string, gen int64, host string, reservedFor time.Duration) (pool.Row, bool, error) {
	defer m.in()()
	before, _ := m.model.ByID(id)
	r, ok := m.model.Settle(id, gen, host, reservedFor)
	after, _ := m.model.ByID(id)
	return r, ok, m.keepYes(before, &after)
}

// NoRoom implements control.Store.
func (m *Memory) NoRoom(_ context.Context, id string, gen int64, hostless bool, present time.Duration) (pool.Claimed, error) {
	defer m.in()()
	return m.model.NoRoom(id, gen, hostless, present), nil
}

// Attend implements control.Store.
func (m *Memory) Attend(_ context.Context, id string, present time.Duration) (bool, error) {
	defer m.in()()
	return m.model.Attend(id, present), nil
}

// Move implements control.Store.
func (m *Memory) Move(_ context.Context, id string, epoch int64, acknowledged bool) (pool.Row, bool, error) {
	defer m.in()()
	r, ok := m.model.Move(id, epoch, acknowledged)
	return r, ok, nil
}

// Renew implements control.Store.
func (m *Memory) Renew(_ context.Context, id string, epoch int64, reservedFor time.Duration) (pool.Row, bool, error) {
	defer m.in()()
	r, ok := m.model.Renew(id, epoch, reservedFor)
	return r, ok, nil
}

// Track implements control.Store.
func (m *Memory) Track(_ context.Context, id string, epoch int64) (bool, error) {
	defer m.in()()
	return m.model.Track(id, epoch), nil
}

// Leave implements control.Store.
func (m *Memory) Leave(_ context.Context, id string, of pool.Passage) (pool.Row, bool, error) {
	defer m.in()()
	r, ok := m.model.Leave(id, of)
	return r, ok, nil
}

// End implements control.Store.
func (m *Memory) End(_ context.Context, id string, epoch int64, to pool.State, reason string) (written, again bool, err error) {
	defer m.in()()
	written, again = m.model.End(id, epoch, to, reason)
	return written, again, nil
}

// Hear implements control.Store.
func (m *Memory) Hear(_ context.Context, id string, epoch int64) (pool.Row, bool, error) {
	defer m.in()()
	r, ok := m.model.Hear(id, epoch)
	return r, ok, nil
}

// Redeem implements control.Store.
func (m *Memory) Redeem(_ context.Context, d pool.Redemption) (pool.RedeemVerdict, pool.Row, error) {
	defer m.in()()
	v, r := m.model.Redeem(d)
	return v, r, nil
}

// Seen implements control.Store.
func (m *Memory) Seen(_ context.Context, running []pool.Ref) ([]bool, error) {
	defer m.in()()
	return m.model.Seen(running), nil
}

// Stand implements control.Store.
func (m *Memory) Stand(_ context.Context, id, at string) (bool, error) {
	defer m.in()()
	return m.model.Stand(id, at), nil
}

// Reopen implements control.Store.
func (m *Memory) Reopen(_ context.Context, id string, epoch int64, reservedFor time.Duration) (bool, error) {
	defer m.in()()
	return m.model.Reopen(id, epoch, reservedFor), nil
}

// Return implements control.Store.
func (m *Memory) Return(_ context.Context, id string, epoch int64, host string) (bool, error) {
	defer m.in()()
	return m.model.Return(id, epoch, host), nil
}

// Override implements control.Store.
func (m *Memory) Override(_ context.Context, name string, o pool.Override, lasts time.Duration) (pool.OverrideVerdict, pool.Limits, error) {
	defer m.in()()
	v, was := m.model.Override(name, o, lasts)
	if v == pool.Overridden {
		m.done(o.By, control.OverrideDeed(name, o.Cap, lasts), o.Reason)
	}
	return v, was, nil
}

// Shadow implements control.Store.
func (m *Memory) Shadow(_ context.Context, t pool.Target, by, reason string) (pool.OrderVerdict, error) {
	defer m.in()()
	v := m.model.Shadow(t, by, reason)
	if v == pool.Ordered {
		m.version++
		m.done(by, control.ShadowDeed(t), reason)
	}
	return v, nil
}

// Enforce implements control.Store.
func (m *Memory) Enforce(_ context.Context, t pool.Target, by, reason string) (pool.OrderVerdict, error) {
	defer m.in()()
	v := m.model.Enforce(t)
	if v == pool.Ordered {
		m.version++
		m.done(by, control.EnforceDeed(t), reason)
	}
	return v, nil
}

// Orders implements control.Store.
func (m *Memory) Orders(context.Context) (pool.Orders, error) {
	defer m.in()()
	return m.model.Orders(), nil
}

// Note implements control.Store.
func (m *Memory) Note(_ context.Context, d control.Deed) error {
	defer m.in()()
	if d.Origin == "" || !m.noted[d.Origin] {
		m.done(d.By, d.What, d.Reason)
		m.noted[d.Origin] = true
	}
	return nil
}

// Resume implements control.Store.
func (m *Memory) Resume(_ context.Context, name, by, reason string) (pool.OverrideVerdict, pool.Limits, error) {
	defer m.in()()
	v, was := m.model.Resume(name)
	if v == pool.Overridden {
		m.done(by, control.ResumeDeed(name), reason)
	}
	return v, was, nil
}

func (m *Memory) done(by, what, reason string) {
	m.deeds = append(m.deeds, control.Deed{At: m.model.Now(), By: by, What: what, Reason: reason})
}

// Audit implements control.Store.
func (m *Memory) Audit(_ context.Context, limit int) ([]control.Deed, error) {
	defer m.in()()
	return newest(m.deeds, limit), nil
}

// newest returns the last ones first.
func newest[T any](all []T, limit int) []T {
	out := slices.Clone(all[max(len(all)-limit, 0):])
	slices.Reverse(out)
	return out
}

// Sweep implements control.Store.
func (m *Memory) Sweep(context.Context) ([]pool.Row, error) {
	defer m.in()()
	m.model.Pulse()
	changed := m.model.Sweep()
	m.forgetDecisions()
	return changed, nil
}

// Pulse implements control.Store.
func (m *Memory) Pulse(_ context.Context, heard []string) (pool.Pulse, error) {
	defer m.in()()
	for _, name := range heard {
		if h, ok := m.hosts[name]; ok && h.State != registry.Buried && m.model.HearHost(name) {
			h.HeardAt = m.model.Now()
			m.hosts[name] = h
		}
	}
	return m.model.Pulse(), nil
}

// FreedTotals implements control.Store.
func (m *Memory) FreedTotals(context.Context) (map[string]int64, error) {
	defer m.in()()
	return m.model.Freed(), nil
}

// Attest implements control.Store.
func (m *Memory) Attest(_ context.Context, r control.Replica) error {
	defer m.in()()
	r.HeardAt = m.model.Now()
	m.replicas[r.ID] = r
	return nil
}

// Replicas implements control.Store.
func (m *Memory) Replicas(context.Context) ([]control.Replica, error) {
	defer m.in()()
	var out []control.Replica
	for _, id := range slices.Sorted(maps.Keys(m.replicas)) {
		if r := m.replicas[id]; m.model.Now().Since(r.HeardAt) < time.Hour {
			out = append(out, r)
		}
	}
	return out, nil
}

// Freed implements control.Store.
func (m *Memory) Freed() <-chan struct{} { return nil }

// Get implements control.Store.
func (m *Memory) Get(_ context.Context, consumer, key string) (pool.Row, bool, error) {
	defer m.in()()
	r, ok := m.model.Get(consumer, key)
	return r, ok, nil
}

// ByID implements control.Store.
func (m *Memory) ByID(_ context.Context, id string) (pool.Row, bool, error) {
	defer m.in()()
	r, ok := m.model.ByID(id)
	return r, ok, nil
}

// List implements control.Store.
func (m *Memory) List(_ context.Context, f control.Filter) ([]pool.Row, error) {
	defer m.in()()
	var out []pool.Row
	for _, r := range m.model.Rows() {
		if (f.Limit == 0 || len(out) < f.Limit) && matches(f, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

func matches(f control.Filter, r pool.Row) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return r.ID > f.After && is(f.Consumer, r.Consumer) && is(f.Host, r.Host) && is(f.Class, r.Class) && is(f.Pool, r.Pool) &&
		(len(f.States) == 0 || slices.Contains(f.States, r.State))
}

// Holdings implements control.Store.
func (m *Memory) Holdings(context.Context) (map[string]pool.Holding, error) {
	defer m.in()()
	return m.model.Holdings(), nil
}

// Lines implements control.Store.
func (m *Memory) Lines(context.Context) ([]pool.Line, error) {
	defer m.in()()
	return m.model.Lines(), nil
}

// Config implements control.Store.
func (m *Memory) Config(context.Context) (control.Config, error) {
	defer m.in()()
	if len(m.configs) == 0 {
		return control.Config{}, nil
	}
	return m.configs[len(m.configs)-1], nil
}

// ConfigAt implements control.Store.
func (m *Memory) ConfigAt(_ context.Context, generation int64) (c control.Config, ok bool, err error) {
	defer m.in()()
	if generation < 1 || generation > int64(len(m.configs)) {
		return c, false, nil
	}
	return m.configs[generation-1], true, nil
}

// Configs implements control.Store.
func (m *Memory) Configs(_ context.Context, limit int) ([]control.Config, error) {
	defer m.in()()
	out := newest(m.configs, limit)
	for i := range out {
		out[i].Document = ""
	}
	return out, nil
}

// Apply implements control.Store.
func (m *Memory) Apply(_ context.Context, c control.Config, s pool.Settings) (generation int64, ok bool, err error) {
	defer m.in()()
	if c.Generation != int64(len(m.configs)) {
		return 0, false, nil
	}
	if m.model.OverCeiling(s) > 0 {
		return 0, false, control.ErrOverCeiling
	}
	c.Generation++
	c.AppliedAt = m.model.Now()
	m.configs = append(m.configs, c)
	m.model.Configure(s)
	m.done(c.By, control.ApplyDeed(c.Generation), "")
	return c.Generation, true, nil
}

// Ping implements control.Store.
func (m *Memory) Ping(context.Context) error { return nil }

// Now implements control.Store.
func (m *Memory) Now(context.Context) (pool.Time, error) {
	defer m.in()()
	return m.model.Now(), nil
}

// Close implements control.Store.
func (m *Memory) Close() error { return nil }
