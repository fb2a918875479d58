package storetest

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// answer puts several results into one that can be compared.
type answer struct {
	Row pool.Row
	OK  bool
}

func (p *pair) regen(t *rapid.T) {
	r := p.row(t, pool.Placing)
	gen := near(t, r.Gen)
	p.both("regen", func(ctx context.Context, s control.Store) (any, error) { return s.Regen(ctx, r.ID, gen) })
}

func (p *pair) settle(t *rapid.T) {
	r := p.row(t, pool.Placing)
	gen, host := near(t, r.Gen), rapid.SampledFrom(hosts).Draw(t, "host")
	p.both("settle", func(ctx context.Context, s control.Store) (any, error) {
		row, ok, err := s.Settle(ctx, r.ID, gen, host, time.Minute)
		return answer{row, ok}, err
	})
}

func (p *pair) noRoom(t *rapid.T) {
	r := p.row(t, pool.Placing)
	gen, hostless, present := near(t, r.Gen), rapid.Bool().Draw(t, "hostless"), p.present(t)
	p.both("no room", func(ctx context.Context, s control.Store) (any, error) {
		return s.NoRoom(ctx, r.ID, gen, hostless, present)
	})
}

func (p *pair) attend(t *rapid.T) {
	r, present := p.row(t, pool.Waiting), p.present(t)
	p.both("attend", func(ctx context.Context, s control.Store) (any, error) { return s.Attend(ctx, r.ID, present) })
}

func (p *pair) move(t *rapid.T) {
	r, acknowledged := p.row(t, pool.Admitted), rapid.Bool().Draw(t, "acknowledged")
	epoch := near(t, r.Epoch)
	p.both("move", func(ctx context.Context, s control.Store) (any, error) {
		row, ok, err := s.Move(ctx, r.ID, epoch, acknowledged)
		return answer{row, ok}, err
	})
}

func (p *pair) renew(t *rapid.T) {
	r := p.row(t, pool.Admitted)
	epoch := near(t, r.Epoch)
	p.both("renew", func(ctx context.Context, s control.Store) (any, error) {
		row, ok, err := s.Renew(ctx, r.ID, epoch, time.Minute)
		return answer{row, ok}, err
	})
}

func (p *pair) track(t *rapid.T) {
	r := p.row(t, pool.Admitted, pool.Releasing)
	epoch := near(t, r.Epoch)
	p.both("track", func(ctx context.Context, s control.Store) (any, error) { return s.Track(ctx, r.ID, epoch) })
}

func (p *pair) leave(t *rapid.T) {
	r := p.row(t, pool.Running, pool.Waiting)
	of := rapid.SampledFrom([]pool.Passage{{}, r.Passage(), {Gen: near(t, r.Gen), QueuedAt: r.QueuedAt}}).Draw(t, "passage")
	p.both("leave", func(ctx context.Context, s control.Store) (any, error) {
		row, ok, err := s.Leave(ctx, r.ID, of)
		return answer{row, ok}, err
	})
}

func (p *pair) end(t *rapid.T) {
	r := p.row(t, pool.Admitted, pool.Running, pool.Releasing)
	epoch, to := near(t, r.Epoch), rapid.SampledFrom([]pool.State{pool.Released, pool.Expired, pool.Evicted, pool.Lost}).Draw(t, "to")
	p.both("end", func(ctx context.Context, s control.Store) (any, error) {
		written, again, err := s.End(ctx, r.ID, epoch, to, "the host said so")
		return fmt.Sprint(written, again), err
	})
}

func (p *pair) sweep(*rapid.T) {
	p.both("sweep", func(ctx context.Context, s control.Store) (any, error) { return s.Sweep(ctx) })
}

func (p *pair) register(t *rapid.T) {
	host := rapid.SampledFrom(hosts).Draw(t, "host")
	p.both("register", func(ctx context.Context, s control.Store) (any, error) { return s.Register(ctx, host) })
}

func (p *pair) advance(t *rapid.T) {
	p.clock.Advance(rapid.SampledFrom([]time.Duration{
		time.Millisecond, 700 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second,
		2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute, 24 * time.Hour,
	}).Draw(t, "by"))
}
