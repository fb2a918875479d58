package storetest

import (
	"context"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// hosts are those of the comparison; of three registered ones, one may die.
var hosts = []string{"h1", "h2", "h3"}

func (p *pair) hear(t *rapid.T) {
	r := p.row(t, pool.Admitted, pool.Running)
	epoch := near(t, r.Epoch)
	p.both("hear", func(ctx context.Context, s control.Store) (any, error) {
		row, ok, err := s.Hear(ctx, r.ID, epoch)
		return answer{row, ok}, err
	})
}

func (p *pair) redeem(t *rapid.T) {
	r := p.row(t, pool.Admitted, pool.Running)
	d := pool.Redemption{
		ID: r.ID, Epoch: near(t, r.Epoch), Audience: r.Audience,
		Expires:  p.clock.Now().Add(rapid.SampledFrom([]time.Duration{time.Minute, 0, -time.Minute}).Draw(t, "expires")),
		Instance: rapid.SampledFrom([]string{"", "i1", "i2"}).Draw(t, "instance"),
	}
	if rapid.IntRange(0, 9).Draw(t, "elsewhere") == 0 {
		d.Audience = "elsewhere"
	}
	p.both("redeem", func(ctx context.Context, s control.Store) (any, error) {
		type redeemed struct {
			Verdict pool.RedeemVerdict
			Row     pool.Row
		}
		v, row, err := s.Redeem(ctx, d)
		return redeemed{v, row}, err
	})
}

func (p *pair) seen(t *rapid.T) {
	var running []pool.Ref
	for range rapid.IntRange(0, 3).Draw(t, "running") {
		r := p.row(t, pool.Admitted, pool.Running)
		running = append(running, pool.Ref{ID: r.ID, Epoch: near(t, r.Epoch)})
	}
	p.both("seen", func(ctx context.Context, s control.Store) (any, error) { return s.Seen(ctx, running) })
}

func (p *pair) stand(t *rapid.T) {
	r, at := p.row(t, pool.Waiting), rapid.SampledFrom([]string{"", "h1", "h2"}).Draw(t, "at")
	p.both("stand", func(ctx context.Context, s control.Store) (any, error) { return s.Stand(ctx, r.ID, at) })
}

func (p *pair) reopen(t *rapid.T) {
	r := p.row(t, pool.Running)
	epoch := near(t, r.Epoch)
	p.both("reopen", func(ctx context.Context, s control.Store) (any, error) {
		return s.Reopen(ctx, r.ID, epoch, time.Minute)
	})
}

func (p *pair) comeBack(t *rapid.T) {
	r, host := p.row(t, pool.Lost), rapid.SampledFrom(hosts).Draw(t, "host")
	epoch := near(t, r.Epoch)
	p.both("return", func(ctx context.Context, s control.Store) (any, error) { return s.Return(ctx, r.ID, epoch, host) })
}

// overridden is what Override and Resume answer.
type overridden struct {
	Verdict pool.OverrideVerdict
	Was     pool.Limits
}

func (p *pair) override(t *rapid.T) {
	name := rapid.SampledFrom([]string{"p", "q", "r", "nowhere"}).Draw(t, "pool")
	o := pool.Override{Cap: rapid.Int64Range(0, 5).Draw(t, "cap"), By: "operator", Reason: "a reason"}
	lasts := rapid.SampledFrom([]time.Duration{0, 5 * time.Second, time.Hour}).Draw(t, "for")
	p.both("override", func(ctx context.Context, s control.Store) (any, error) {
		v, was, err := s.Override(ctx, name, o, lasts)
		return overridden{v, was}, err
	})
}

func (p *pair) resume(t *rapid.T) {
	name := rapid.SampledFrom([]string{"p", "q", "r", "nowhere"}).Draw(t, "pool")
	p.both("resume", func(ctx context.Context, s control.Store) (any, error) {
		v, was, err := s.Resume(ctx, name, "operator", "it is over")
		return overridden{v, was}, err
	})
}

func (p *pair) pulse(t *rapid.T) {
	heard := rapid.SliceOfDistinct(rapid.SampledFrom(append([]string{"stranger"}, hosts...)), rapid.ID).Draw(t, "heard")
	p.both("pulse", func(ctx context.Context, s control.Store) (any, error) { return s.Pulse(ctx, heard) })
}

// liveOn lets time go by without an outage, so that silence counts: longer than any slot or
// host lives without being heard of.
func (p *pair) liveOn(t *rapid.T) {
	heard := rapid.SampledFrom([][]string{hosts, hosts[1:], hosts[:2], hosts[:1]}).Draw(t, "heard")
	// The shortest life, of 20 s, makes an outage of a shorter silence than that of a host does.
	step, n := pool.PulseGap, rapid.SampledFrom([]int{1, 6, 11}).Draw(t, "half minutes")
	if rapid.Bool().Draw(t, "close to each other") {
		step, n = 6*time.Second, 4
	}
	for range n {
		p.clock.Advance(step)
		p.both("pulse", func(ctx context.Context, s control.Store) (any, error) { return s.Pulse(ctx, heard) })
	}
	p.sweep(t)
}

func (p *pair) attest(t *rapid.T) {
	r := control.Replica{
		ID: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "replica"), Address: "127.0.0.1:1", Version: "v1",
		Keys: rapid.SampledFrom([]string{"k1", "k2,k1"}).Draw(t, "keys"),
	}
	p.both("attest", func(ctx context.Context, s control.Store) (any, error) { return nil, s.Attest(ctx, r) })
}
