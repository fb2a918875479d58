package storetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Memory is pool.Model as a control.Store: the specification itself, for comparison, and
// for tests of others that need no file. It may be used concurrently.
type Memory struct {
	clock func() pool.Time

	mu     sync.Mutex // guards all below
	model  *pool.Model
	config control.Config
}

var _ control.Store = (*Memory)(nil)

// NewMemory returns an empty store that is dated by clock.
func NewMemory(clock func() pool.Time) *Memory {
	return &Memory{clock: clock, model: pool.NewModel()}
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
	return m.model.Claim(c), nil
}

// Regen implements control.Store.
func (m *Memory) Regen(_ context.Context, id string, gen int64) (int64, error) {
	defer m.in()()
	return m.model.Regen(id, gen), nil
}

// Settle implements control.Store.
func (m *Memory) Settle(_ context.Context, id string, gen int64, host string, reservedFor time.Duration) (pool.Row, bool, error) {
	defer m.in()()
	r, ok := m.model.Settle(id, gen, host, reservedFor)
	return r, ok, nil
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
func (m *Memory) Leave(_ context.Context, id string) (pool.Row, bool, error) {
	defer m.in()()
	r, ok := m.model.Leave(id)
	return r, ok, nil
}

// End implements control.Store.
func (m *Memory) End(_ context.Context, id string, epoch int64, to pool.State, reason string) (written, again bool, err error) {
	defer m.in()()
	written, again = m.model.End(id, epoch, to, reason)
	return written, again, nil
}

// Sweep implements control.Store.
func (m *Memory) Sweep(context.Context) ([]pool.Row, error) {
	defer m.in()()
	return m.model.Sweep(), nil
}

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
	return is(f.Consumer, r.Consumer) && is(f.Host, r.Host) && is(f.Class, r.Class) &&
		(len(f.States) == 0 || slices.Contains(f.States, r.State))
}

// Lines implements control.Store.
func (m *Memory) Lines(context.Context) ([]pool.Line, error) {
	defer m.in()()
	return m.model.Lines(), nil
}

// Register implements control.Store.
func (m *Memory) Register(context.Context, string) (int64, error) {
	defer m.in()()
	return m.model.Next(), nil
}

// Config implements control.Store.
func (m *Memory) Config(context.Context) (control.Config, error) {
	defer m.in()()
	return m.config, nil
}

// Apply implements control.Store.
func (m *Memory) Apply(_ context.Context, c control.Config, s pool.Settings) (generation int64, ok bool, err error) {
	defer m.in()()
	if c.Generation != m.config.Generation {
		return 0, false, nil
	}
	c.Generation++
	c.AppliedAt = m.model.Now()
	m.config = c
	m.model.Configure(s)
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
