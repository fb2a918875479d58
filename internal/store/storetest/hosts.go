package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/registry"
)

// joiners are the hosts that join, one of which is registered by no other way.
var joiners = []string{"h1", "h3", "j1"}

func secret(n int) registry.Digest { return sha256.Sum256([]byte{byte(n)}) }

func (p *pair) issueJoin(t *rapid.T) {
	p.ids++
	token := registry.Token{
		ID: fmt.Sprintf("jt%04d", p.ids), Digest: secret(p.ids), By: "root",
		Host: rapid.SampledFrom(append([]string{"", ""}, joiners...)).Draw(t, "bound to"),
	}
	lasts := rapid.SampledFrom([]time.Duration{time.Hour, time.Second, 48 * time.Hour}).Draw(t, "lasts")
	p.both("issue join", func(ctx context.Context, s control.Store) (any, error) { return s.IssueJoin(ctx, token, lasts) })
}

// token draws one that was made, or one that was not.
func (p *pair) token(t *rapid.T) registry.Token {
	tokens, err := p.model.JoinTokens(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return rapid.SampledFrom(append(tokens, registry.Token{ID: "nothing"})).Draw(t, "token")
}

// revoked is what RevokeJoin answers.
type revoked struct {
	Token registry.Token
	OK    bool
}

func (p *pair) revokeJoin(t *rapid.T) {
	id := p.token(t).ID
	p.both("revoke join", func(ctx context.Context, s control.Store) (any, error) {
		token, ok, err := s.RevokeJoin(ctx, id, "root")
		return revoked{token, ok}, err
	})
}

func (p *pair) join(t *rapid.T) {
	j := registry.Join{
		Token: p.token(t).Digest, Host: rapid.SampledFrom(joiners).Draw(t, "host"), Endpoint: "127.0.0.1:7071",
		Credential: secret(rapid.IntRange(1, 3).Draw(t, "credential")),
	}
	p.both("join", func(ctx context.Context, s control.Store) (any, error) { return s.Join(ctx, j) })
}

func (p *pair) registerHost(t *rapid.T) {
	r := registry.Registration{
		Host: rapid.SampledFrom(joiners).Draw(t, "host"), Version: "v2",
		Credential: secret(rapid.IntRange(1, 3).Draw(t, "credential")),
		Endpoint:   rapid.SampledFrom([]string{"127.0.0.1:7071", "127.0.0.1:7072"}).Draw(t, "endpoint"),
	}
	if h := p.model.hosts[r.Host]; rapid.Bool().Draw(t, "goes on") {
		r.Incarnation = near(t, h.Incarnation)
	}
	p.both("register host", func(ctx context.Context, s control.Store) (any, error) {
		type registered struct {
			Host  registry.Host
			Entry registry.Entry
		}
		h, entry, err := s.RegisterHost(ctx, r)
		return registered{h, entry}, err
	})
}

func (p *pair) setHostState(t *rapid.T) {
	c := registry.Change{
		Host: rapid.SampledFrom(append([]string{"nowhere"}, joiners...)).Draw(t, "host"), By: "operator", Reason: "a reason", Silent: 30 * time.Second,
		Deed: rapid.SampledFrom([]registry.Deed{registry.Cordon, registry.Uncordon, registry.Uncordon, registry.Drain, registry.Bury, registry.Bury}).Draw(t, "deed"),
	}
	p.both("set host state", func(ctx context.Context, s control.Store) (any, error) {
		type changed struct {
			Was     registry.Host
			Verdict registry.Verdict
		}
		was, v, err := s.SetHostState(ctx, c)
		return changed{was, v}, err
	})
	if rapid.Bool().Draw(t, "sweep at once") {
		p.sweep(t)
	}
}

func (p *pair) describe(t *rapid.T) {
	said := []control.HostBounds{
		{ID: rapid.SampledFrom(joiners).Draw(t, "host"), Bounds: registry.Bounds{
			Mode: gate.Committed, MaxAsk: gate.GiB + 1, Labels: []gate.Label{{Name: "zone", Value: "a \"'"}}, Limits: []gate.Dim{{Name: "gpu", N: 2}},
		}},
		{ID: "nowhere"},
		{ID: "h2", Bounds: registry.Bounds{MaxAsk: 5}},
	}
	p.both("describe", func(ctx context.Context, s control.Store) (any, error) { return nil, s.Describe(ctx, said) })
}
