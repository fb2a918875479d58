package storetest

import (
	"context"
	"testing"

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
		d.Origin = rapid.SampledFrom([]string{"", "h1/7/100", "h1/7/101", "h1/8/100"}).Draw(t, "origin")
		p.both("note", func(ctx context.Context, s control.Store) (any, error) { return nil, s.Note(ctx, d) })
	}
}

// testNoteOnce has every replica write down, many times at once, what they all were told of:
// each deed of a host is in the audit once, and as it was told first. Those without an origin were done through a replica, each by itself.
func testNoteOnce(t *testing.T, o Opened) {
	all := o.stores(t)
	deed := func(origin, what string) control.Deed {
		return control.Deed{By: "uid-0", What: what, Reason: "the store is down", Origin: origin}
	}
	note := func(s control.Store, d control.Deed) {
		if err := s.Note(context.Background(), d); err != nil {
			t.Error(err)
		}
	}
	note(all[0], deed("h1/7/100", "bypass"))
	crowd(10, func(i int) {
		for _, origin := range []string{"h1/7/100", "h1/7/101", "h1/8/100", "h2/7/100"} {
			note(all[i%len(all)], deed(origin, "bypass, 3s before this was written"))
		}
	})
	note(all[0], deed("", "set p --cap 2"))
	note(all[0], deed("", "set p --cap 2"))
	again := all[len(all)-1]
	note(again, deed("h1/7/101", "bypass"))
	deeds, err := again.Audit(t.Context(), 100)
	if err != nil || len(deeds) != 6 || deeds[5].What != "bypass" {
		t.Errorf("%d deeds, %v: %+v", len(deeds), err, deeds)
	}
}
