package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/learned"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
)

// ErrInjected is what a planned fault answers.
var ErrInjected = errors.New("storetest: injected fault")

// Fault is one call that goes wrong.
type Fault struct {
	Call      string // method of control.Store, as "Settle"
	Nth       int    // which call of it, from 1
	Persisted bool   // it is carried out, and only its answer is lost
}

// FaultyStore is a store some of whose calls fail by plan. It may be used concurrently.
type FaultyStore struct {
	control.Store
	plan map[Fault]bool // fault -> planned

	mu    sync.Mutex               // guards what follows, and plan
	away  bool                     // every call fails
	slow  map[string]time.Duration // method -> how long each call is on its way
	calls map[string]int           // method -> calls so far
}

// Faulty wraps a store so that each fault of the plan happens once: before the call, or
// after the store carried it out.
func Faulty(s control.Store, plan ...Fault) *FaultyStore {
	f := &FaultyStore{Store: s, plan: map[Fault]bool{}, calls: map[string]int{}, slow: map[string]time.Duration{}}
	for _, fault := range plan {
		f.plan[fault] = true
	}
	return f
}

// Calls says how often a method was called, the failed calls too.
func (f *FaultyStore) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// Mend has nothing fail any more.
func (f *FaultyStore) Mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = nil
}

// GoAway has every call fail, until it is told otherwise.
func (f *FaultyStore) GoAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

// Delay has each call of a method be on its way for so long before it is carried out.
func (f *FaultyStore) Delay(method string, by time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow[method] = by
}

// planned says whether a call fails.
func (f *FaultyStore) planned(fault Fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plan[fault]
}

// around counts a call, runs it unless it is to fail before, and says whether its answer is lost.
func (f *FaultyStore) around(method string, call func() error) error {
	f.mu.Lock()
	f.calls[method]++
	n, away, slow := f.calls[method], f.away, f.slow[method]
	f.mu.Unlock()
	if slow > 0 {
		time.Sleep(slow)
	}
	if away || f.planned(Fault{method, n, false}) {
		return ErrInjected
	}
	if err := call(); err != nil {
		return err
	}
	if f.planned(Fault{method, n, true}) {
		return ErrInjected
	}
	return nil
}

// Claim implements control.Store.
func (f *FaultyStore) Claim(ctx context.Context, c pool.Claim) (pool.Claimed, error) {
	return one(f, "Claim", func() (pool.Claimed, error) { return f.Store.Claim(ctx, c) })
}

// Decide implements control.Store.
func (f *FaultyStore) Decide(ctx context.Context, decisions []*control.Decision, most int64) (int64, error) {
	return one(f, "Decide", func() (int64, error) { return f.Store.Decide(ctx, decisions, most) })
}

// Decisions implements control.Store.
func (f *FaultyStore) Decisions(ctx context.Context, consumer, key string, limit int) ([]*control.Decision, error) {
	return one(f, "Decisions", func() ([]*control.Decision, error) { return f.Store.Decisions(ctx, consumer, key, limit) })
}

// Decision implements control.Store.
func (f *FaultyStore) Decision(ctx context.Context, id string) (*control.Decision, bool, error) {
	return two(f, "Decision", func() (*control.Decision, bool, error) { return f.Store.Decision(ctx, id) })
}

// Regen implements control.Store.
func (f *FaultyStore) Regen(ctx context.Context, id string, gen int64) (int64, error) {
	return one(f, "Regen", func() (int64, error) { return f.Store.Regen(ctx, id, gen) })
}

// Settle implements control.Store.
func (f *FaultyStore) Settle(ctx context.Context, id string, gen int64, host string, reservedFor time.Duration) (pool.Row, bool, error) {
	return two(f, "Settle", func() (pool.Row, bool, error) { return f.Store.Settle(ctx, id, gen, host, reservedFor) })
}

// NoRoom implements control.Store.
func (f *FaultyStore) NoRoom(ctx context.Context, id string, gen int64, hostless bool, present time.Duration) (pool.Claimed, error) {
	return one(f, "NoRoom", func() (pool.Claimed, error) { return f.Store.NoRoom(ctx, id, gen, hostless, present) })
}

// Attend implements control.Store.
func (f *FaultyStore) Attend(ctx context.Context, id string, present time.Duration) (bool, error) {
	return one(f, "Attend", func() (bool, error) { return f.Store.Attend(ctx, id, present) })
}

// Move implements control.Store.
func (f *FaultyStore) Move(ctx context.Context, id string, epoch int64, acknowledged bool) (pool.Row, bool, error) {
	return two(f, "Move", func() (pool.Row, bool, error) { return f.Store.Move(ctx, id, epoch, acknowledged) })
}

// Renew implements control.Store.
func (f *FaultyStore) Renew(ctx context.Context, id string, epoch int64, reservedFor time.Duration) (pool.Row, bool, error) {
	return two(f, "Renew", func() (pool.Row, bool, error) { return f.Store.Renew(ctx, id, epoch, reservedFor) })
}

// Track implements control.Store.
func (f *FaultyStore) Track(ctx context.Context, id string, epoch int64) (bool, error) {
	return one(f, "Track", func() (bool, error) { return f.Store.Track(ctx, id, epoch) })
}

// Leave implements control.Store.
func (f *FaultyStore) Leave(ctx context.Context, id string, of pool.Passage) (pool.Row, bool, error) {
	return two(f, "Leave", func() (pool.Row, bool, error) { return f.Store.Leave(ctx, id, of) })
}

// End implements control.Store.
func (f *FaultyStore) End(ctx context.Context, id string, epoch int64, to pool.State, reason string) (bool, bool, error) {
	return two(f, "End", func() (bool, bool, error) { return f.Store.End(ctx, id, epoch, to, reason) })
}

// Hear implements control.Store.
func (f *FaultyStore) Hear(ctx context.Context, id string, epoch int64) (pool.Row, bool, error) {
	return two(f, "Hear", func() (pool.Row, bool, error) { return f.Store.Hear(ctx, id, epoch) })
}

// Redeem implements control.Store.
func (f *FaultyStore) Redeem(ctx context.Context, d pool.Redemption) (pool.RedeemVerdict, pool.Row, error) {
	return two(f, "Redeem", func() (pool.RedeemVerdict, pool.Row, error) { return f.Store.Redeem(ctx, d) })
}

// Seen implements control.Store.
func (f *FaultyStore) Seen(ctx context.Context, running []pool.Ref) ([]bool, error) {
	return one(f, "Seen", func() ([]bool, error) { return f.Store.Seen(ctx, running) })
}

// Stand implements control.Store.
func (f *FaultyStore) Stand(ctx context.Context, id, at string) (bool, error) {
	return one(f, "Stand", func() (bool, error) { return f.Store.Stand(ctx, id, at) })
}

// Reopen implements control.Store.
func (f *FaultyStore) Reopen(ctx context.Context, id string, epoch int64, reservedFor time.Duration) (bool, error) {
	return one(f, "Reopen", func() (bool, error) { return f.Store.Reopen(ctx, id, epoch, reservedFor) })
}

// Return implements control.Store.
func (f *FaultyStore) Return(ctx context.Context, id string, epoch int64, host string) (bool, error) {
	return one(f, "Return", func() (bool, error) { return f.Store.Return(ctx, id, epoch, host) })
}

// Pulse implements control.Store.
func (f *FaultyStore) Pulse(ctx context.Context, heard []string) (pool.Pulse, error) {
	return one(f, "Pulse", func() (pool.Pulse, error) { return f.Store.Pulse(ctx, heard) })
}

// FreedTotals implements control.Store.
func (f *FaultyStore) FreedTotals(ctx context.Context) (map[string]int64, error) {
	return one(f, "FreedTotals", func() (map[string]int64, error) { return f.Store.FreedTotals(ctx) })
}

// Sweep implements control.Store.
func (f *FaultyStore) Sweep(ctx context.Context) ([]pool.Row, error) {
	return one(f, "Sweep", func() ([]pool.Row, error) { return f.Store.Sweep(ctx) })
}

// Get implements control.Store.
func (f *FaultyStore) Get(ctx context.Context, consumer, key string) (pool.Row, bool, error) {
	return two(f, "Get", func() (pool.Row, bool, error) { return f.Store.Get(ctx, consumer, key) })
}

// ByID implements control.Store.
func (f *FaultyStore) ByID(ctx context.Context, id string) (pool.Row, bool, error) {
	return two(f, "ByID", func() (pool.Row, bool, error) { return f.Store.ByID(ctx, id) })
}

// List implements control.Store.
func (s *FaultyStore) List(ctx context.Context, f control.Filter) ([]pool.Row, error) {
	return one(s, "List", func() ([]pool.Row, error) { return s.Store.List(ctx, f) })
}

// Lines implements control.Store.
func (f *FaultyStore) Lines(ctx context.Context) ([]pool.Line, error) {
	return one(f, "Lines", func() ([]pool.Line, error) { return f.Store.Lines(ctx) })
}

// Holdings implements control.Store.
func (f *FaultyStore) Holdings(ctx context.Context) (map[string]pool.Holding, error) {
	return one(f, "Holdings", func() (map[string]pool.Holding, error) { return f.Store.Holdings(ctx) })
}

// Register implements control.Store.
func (f *FaultyStore) Register(ctx context.Context, host string) (int64, error) {
	return one(f, "Register", func() (int64, error) { return f.Store.Register(ctx, host) })
}

// IssueJoin implements control.Store.
func (f *FaultyStore) IssueJoin(ctx context.Context, t registry.Token, lasts time.Duration) (registry.Token, error) {
	return one(f, "IssueJoin", func() (registry.Token, error) { return f.Store.IssueJoin(ctx, t, lasts) })
}

// RevokeJoin implements control.Store.
func (f *FaultyStore) RevokeJoin(ctx context.Context, id, by string) (registry.Token, bool, error) {
	return two(f, "RevokeJoin", func() (registry.Token, bool, error) { return f.Store.RevokeJoin(ctx, id, by) })
}

// Join implements control.Store.
func (f *FaultyStore) Join(ctx context.Context, j registry.Join) (registry.Entry, error) {
	return one(f, "Join", func() (registry.Entry, error) { return f.Store.Join(ctx, j) })
}

// RegisterHost implements control.Store.
func (f *FaultyStore) RegisterHost(ctx context.Context, r registry.Registration) (registry.Host, registry.Entry, error) {
	return two(f, "RegisterHost", func() (registry.Host, registry.Entry, error) { return f.Store.RegisterHost(ctx, r) })
}

// SetHostState implements control.Store.
func (f *FaultyStore) SetHostState(ctx context.Context, c registry.Change) (registry.Host, registry.Verdict, error) {
	return two(f, "SetHostState", func() (registry.Host, registry.Verdict, error) { return f.Store.SetHostState(ctx, c) })
}

// HostsVersion implements control.Store.
func (f *FaultyStore) HostsVersion(ctx context.Context) (int64, error) {
	return one(f, "HostsVersion", func() (int64, error) { return f.Store.HostsVersion(ctx) })
}

// Describe implements control.Store.
func (f *FaultyStore) Describe(ctx context.Context, said []control.HostBounds) error {
	return f.around("Describe", func() error { return f.Store.Describe(ctx, said) })
}

// Hosts implements control.Store.
func (f *FaultyStore) Hosts(ctx context.Context) ([]control.RegisteredHost, error) {
	return one(f, "Hosts", func() ([]control.RegisteredHost, error) { return f.Store.Hosts(ctx) })
}

// Host implements control.Store.
func (f *FaultyStore) Host(ctx context.Context, id string) (control.RegisteredHost, bool, error) {
	return two(f, "Host", func() (control.RegisteredHost, bool, error) { return f.Store.Host(ctx, id) })
}

// Config implements control.Store.
func (f *FaultyStore) Config(ctx context.Context) (control.Config, error) {
	return one(f, "Config", func() (control.Config, error) { return f.Store.Config(ctx) })
}

// Apply implements control.Store.
func (f *FaultyStore) Apply(ctx context.Context, c control.Config, s pool.Settings) (int64, bool, error) {
	return two(f, "Apply", func() (int64, bool, error) { return f.Store.Apply(ctx, c, s) })
}

// Learn implements control.Store.
func (f *FaultyStore) Learn(ctx context.Context, rules learned.Rules, told []learned.Word) error {
	return f.around("Learn", func() error { return f.Store.Learn(ctx, rules, told) })
}

// Learned implements control.Store.
func (f *FaultyStore) Learned(ctx context.Context) ([]learned.Known, error) {
	return one(f, "Learned", func() ([]learned.Known, error) { return f.Store.Learned(ctx) })
}

// Ping implements control.Store.
func (f *FaultyStore) Ping(ctx context.Context) error {
	return f.around("Ping", func() error { return f.Store.Ping(ctx) })
}

// Now implements control.Store.
func (f *FaultyStore) Now(ctx context.Context) (pool.Time, error) {
	return one(f, "Now", func() (pool.Time, error) { return f.Store.Now(ctx) })
}

func one[A any](f *FaultyStore, method string, call func() (A, error)) (A, error) {
	a, _, err := two(f, method, func() (A, struct{}, error) {
		a, err := call()
		return a, struct{}{}, err
	})
	return a, err
}

// two loses the answers of a call whose fault came after it.
func two[A, B any](f *FaultyStore, method string, call func() (A, B, error)) (a A, b B, err error) {
	var noA A
	var noB B
	if err = f.around(method, func() (err error) { a, b, err = call(); return err }); err != nil {
		return noA, noB, err
	}
	return a, b, nil
}
