package storetest

import (
	"context"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// enforcement is shadow once in a while.
func (p *pair) enforcement(t *rapid.T) pool.Enforcement {
	return rapid.SampledFrom([]pool.Enforcement{pool.Enforce, pool.Enforce, pool.Enforce, pool.Shadow}).Draw(t, "enforcement")
}

func (p *pair) target(t *rapid.T) pool.Target {
	return rapid.SampledFrom([]pool.Target{
		{Scope: pool.OfAll},
		{Scope: pool.OfQuotas},
		{Scope: pool.OfPool, Name: "p"},
		{Scope: pool.OfPool, Name: "q"},
		{Scope: pool.OfPool, Name: "nowhere"},
		{Scope: pool.OfHost, Name: hosts[0]},
	}).Draw(t, "target")
}

func (p *pair) shadow(t *rapid.T) {
	target := p.target(t)
	p.both("shadow", func(ctx context.Context, s control.Store) (any, error) {
		return s.Shadow(ctx, target, "operator", "an incident")
	})
}

func (p *pair) enforce(t *rapid.T) {
	target := p.target(t)
	p.both("enforce", func(ctx context.Context, s control.Store) (any, error) {
		return s.Enforce(ctx, target, "operator", "it is over")
	})
	if rapid.Bool().Draw(t, "and a deed on a host") {
		d := control.Deed{By: "uid-0", What: "bypass --hosts h1 --for 30m0s", Reason: "the store is down"}
		p.both("note", func(ctx context.Context, s control.Store) (any, error) { return nil, s.Note(ctx, d) })
	}
}
