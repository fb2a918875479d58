package web_test

import (
	"context"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/learned"
	"github.com/plimsoll-project/plimsoll/pool"
)

// sabotaged is a store whose calls a test can break.
type sabotaged struct {
	control.Store
	mu    sync.Mutex // guards fault
	fault func(call string) error
}

func (s *sabotaged) broken(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		return nil
	}
	return s.fault(call)
}

func (s *sabotaged) breaks(fault func(call string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *sabotaged) Get(ctx context.Context, consumer, key string) (r pool.Row, found bool, err error) {
	if err := s.broken("Get"); err != nil {
		return r, false, err
	}
	return s.Store.Get(ctx, consumer, key)
}

func (s *sabotaged) Claim(ctx context.Context, c pool.Claim) (r pool.Claimed, err error) {
	if err := s.broken("Claim"); err != nil {
		return r, err
	}
	return s.Store.Claim(ctx, c)
}

func (s *sabotaged) Redeem(ctx context.Context, d pool.Redemption) (v pool.RedeemVerdict, r pool.Row, err error) {
	if err := s.broken("Redeem"); err != nil {
		return v, r, err
	}
	return s.Store.Redeem(ctx, d)
}

func (s *sabotaged) Seen(ctx context.Context, running []pool.Ref) ([]bool, error) {
	if err := s.broken("Seen"); err != nil {
		return nil, err
	}
	return s.Store.Seen(ctx, running)
}

func (s *sabotaged) ByID(ctx context.Context, id string) (r pool.Row, found bool, err error) {
	if err := s.broken("ByID"); err != nil {
		return r, false, err
	}
	return s.Store.ByID(ctx, id)
}

func (s *sabotaged) List(ctx context.Context, f control.Filter) ([]pool.Row, error) {
	if err := s.broken("List"); err != nil {
		return nil, err
	}
	return s.Store.List(ctx, f)
}

func (s *sabotaged) Now(ctx context.Context) (pool.Time, error) {
	if err := s.broken("Now"); err != nil {
		return 0, err
	}
	return s.Store.Now(ctx)
}

func (s *sabotaged) Pulse(ctx context.Context, heard []string) (p pool.Pulse, err error) {
	if err := s.broken("Pulse"); err != nil {
		return p, err
	}
	return s.Store.Pulse(ctx, heard)
}

func (s *sabotaged) Hosts(ctx context.Context) ([]control.RegisteredHost, error) {
	if err := s.broken("Hosts"); err != nil {
		return nil, err
	}
	return s.Store.Hosts(ctx)
}

func (s *sabotaged) Host(ctx context.Context, id string) (h control.RegisteredHost, ok bool, err error) {
	if err := s.broken("Host"); err != nil {
		return h, ok, err
	}
	return s.Store.Host(ctx, id)
}

func (s *sabotaged) Override(ctx context.Context, name string, o pool.Override, lasts time.Duration) (v pool.OverrideVerdict, l pool.Limits, err error) {
	if err := s.broken("Override"); err != nil {
		return v, l, err
	}
	return s.Store.Override(ctx, name, o, lasts)
}

func (s *sabotaged) Audit(ctx context.Context, limit int) ([]control.Deed, error) {
	if err := s.broken("Audit"); err != nil {
		return nil, err
	}
	return s.Store.Audit(ctx, limit)
}

func (s *sabotaged) Configs(ctx context.Context, limit int) ([]control.Config, error) {
	if err := s.broken("Configs"); err != nil {
		return nil, err
	}
	return s.Store.Configs(ctx, limit)
}

func (s *sabotaged) ConfigAt(ctx context.Context, generation int64) (c control.Config, ok bool, err error) {
	if err := s.broken("ConfigAt"); err != nil {
		return c, false, err
	}
	return s.Store.ConfigAt(ctx, generation)
}

func (s *sabotaged) Replicas(ctx context.Context) ([]control.Replica, error) {
	if err := s.broken("Replicas"); err != nil {
		return nil, err
	}
	return s.Store.Replicas(ctx)
}

func (s *sabotaged) Lines(ctx context.Context) ([]pool.Line, error) {
	if err := s.broken("Lines"); err != nil {
		return nil, err
	}
	return s.Store.Lines(ctx)
}

func (s *sabotaged) Config(ctx context.Context) (c control.Config, err error) {
	if err := s.broken("Config"); err != nil {
		return c, err
	}
	return s.Store.Config(ctx)
}

func (s *sabotaged) Ping(ctx context.Context) error {
	if err := s.broken("Ping"); err != nil {
		return err
	}
	return s.Store.Ping(ctx)
}

func (s *sabotaged) Learned(ctx context.Context) ([]learned.Known, error) {
	if err := s.broken("Learned"); err != nil {
		return nil, err
	}
	return s.Store.Learned(ctx)
}
