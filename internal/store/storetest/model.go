package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Deterministic makes rapid draw the same sequences in each run, as long as no flag says
// otherwise. Call it from TestMain after flag.Parse.
func Deterministic(checks, steps int) {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{
		"rapid.checks": fmt.Sprint(checks), "rapid.steps": fmt.Sprint(steps), "rapid.seed": "20261129", "rapid.nofailfile": "true",
	} {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
}

// pair is the model and the store that must equal it, through each of its replicas.
type pair struct {
	t      *rapid.T
	clock  *Clock
	model  *Memory
	stores []control.Store // on one database; they take turns
	turn   int
	ids    int
}

// Compare draws sequences of transitions and compares every answer and every row with the model's.
func Compare(t *testing.T, fresh func(testing.TB) Opened) {
	rapid.Check(t, func(rt *rapid.T) {
		o := fresh(t)
		p := &pair{t: rt, clock: o.Clock, model: NewMemory(o.Clock.Now), stores: o.stores(t)}
		defer func() {
			for _, s := range p.stores {
				_ = s.Close() // or the test's end does
			}
		}()
		p.configure(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"claim": p.claim, "claim again": p.claim, "attempt": p.attempt, "regen": p.regen, "settle": p.settle, "settle again": p.settle,
			"no room": p.noRoom, "attend": p.attend, "move": p.move, "renew": p.renew, "track": p.track, "leave": p.leave,
			"end": p.end, "sweep": p.sweep, "advance": p.advance, "register": p.register, "configure": p.configure, "": p.compare,
			"hear": p.hear, "redeem": p.redeem, "redeem again": p.redeem, "seen": p.seen, "stand": p.stand, "reopen": p.reopen,
			"return": p.comeBack, "override": p.override, "shadow": p.shadow, "enforce": p.enforce, "resume": p.resume, "pulse": p.pulse, "live on": p.liveOn, "attest": p.attest,
			"issue join": p.issueJoin, "revoke join": p.revokeJoin, "join": p.join, "join again": p.join, "register host": p.registerHost,
			"set host state": p.setHostState, "set host state again": p.setHostState, "describe": p.describe, "observed": p.observed,
			"learn": p.learn, "learn again": p.learn, "decide": p.decide,
		})
	})
}

// both runs a transition on the two and compares what it answers.
func (p *pair) both(what string, step func(context.Context, control.Store) (any, error)) {
	p.t.Helper()
	want, err := step(context.Background(), p.model)
	if err != nil {
		p.t.Fatal(err)
	}
	p.turn++
	got, err := step(context.Background(), p.stores[p.turn/3%len(p.stores)])
	if err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Fatalf("%s (model -, store +):\n%s", what, diff)
	}
}

// compare holds all rows and lines of the store against the model's.
func (p *pair) compare(t *rapid.T) {
	if err := p.model.Check(); err != nil {
		t.Fatal(err)
	}
	p.both("rows", func(ctx context.Context, s control.Store) (any, error) { return s.List(ctx, control.Filter{}) })
	p.both("holdings", func(ctx context.Context, s control.Store) (any, error) { return s.Holdings(ctx) })
	p.both("lines", func(ctx context.Context, s control.Store) (any, error) { return s.Lines(ctx) })
	p.both("orders", func(ctx context.Context, s control.Store) (any, error) { return s.Orders(ctx) })
	p.both("freed", func(ctx context.Context, s control.Store) (any, error) { return s.FreedTotals(ctx) })
	p.both("now", func(ctx context.Context, s control.Store) (any, error) { return s.Now(ctx) })
	p.both("hosts", func(ctx context.Context, s control.Store) (any, error) { return s.Hosts(ctx) })
	p.both("host", func(ctx context.Context, s control.Store) (any, error) {
		h, ok, err := s.Host(ctx, hosts[0])
		return fmt.Sprintf("%+v %v", h, ok), err
	})
	p.both("replicas", func(ctx context.Context, s control.Store) (any, error) { return s.Replicas(ctx) })
	p.both("audit", func(ctx context.Context, s control.Store) (any, error) { return s.Audit(ctx, 3) })
	p.both("version", func(ctx context.Context, s control.Store) (any, error) { return s.HostsVersion(ctx) })
	p.both("join tokens", func(ctx context.Context, s control.Store) (any, error) { return s.JoinTokens(ctx) })
	p.both("compared", func(ctx context.Context, s control.Store) (any, error) { return s.Compared(ctx) })
	p.both("learned", func(ctx context.Context, s control.Store) (any, error) { return s.Learned(ctx) })
	p.both("decisions", p.decisions)
	p.both("configs", func(ctx context.Context, s control.Store) (any, error) { return s.Configs(ctx, 2) })
}

func (p *pair) configure(t *rapid.T) {
	limits := pool.Settings{Pools: map[string]pool.Limits{}, Quotas: map[string]int64{}}
	limits.DefaultQuota = rapid.SampledFrom([]int64{pool.Unlimited, 1, 2, 3}).Draw(t, "default quota")
	limits.QuotaEnforcement = p.enforcement(t)
	limits.Ceiling = rapid.SampledFrom([]int64{0, 0, pool.Unlimited, 6, 9}).Draw(t, "ceiling")
	for _, name := range []string{"p", "q", "r"} {
		if rapid.IntRange(0, 9).Draw(t, name) > 0 {
			limits.Pools[name] = p.limits(t, name == "r")
		}
	}
	if rapid.Bool().Draw(t, "quota") {
		limits.Quotas["t1"] = rapid.Int64Range(-1, 3).Draw(t, "quota of t1")
	}
	p.both("apply", func(ctx context.Context, s control.Store) (any, error) {
		c, err := s.Config(ctx)
		if err != nil {
			return nil, err
		}
		c.Document, c.By = "document", "operator"
		generation, ok, err := s.Apply(ctx, c, limits)
		if errors.Is(err, control.ErrOverCeiling) {
			return "over the ceiling", nil
		}
		return fmt.Sprint(generation, ok), err
	})
	p.both("config", func(ctx context.Context, s control.Store) (any, error) {
		c, ok, err := s.ConfigAt(ctx, 2)
		return fmt.Sprint(c, ok), err
	})
}

// limits draws a pool's; one without hosts may be put on hosts, and the other way round.
func (p *pair) limits(t *rapid.T, hostless bool) pool.Limits {
	l := pool.Limits{Cap: rapid.Int64Range(-1, 4).Draw(t, "cap"), MaxWaiting: rapid.Int64Range(0, 5).Draw(t, "max waiting")}
	l.Enforcement = p.enforcement(t)
	if hostless != (rapid.IntRange(0, 9).Draw(t, "placed otherwise") == 0) {
		l.Audience = rapid.SampledFrom([]string{"cloud", "cloud", "yard"}).Draw(t, "audience")
		l.SlotTTL = rapid.SampledFrom([]time.Duration{20 * time.Second, 2 * time.Minute}).Draw(t, "slot ttl")
		l.TicketTTL = rapid.SampledFrom([]time.Duration{5 * time.Second, time.Minute}).Draw(t, "ticket ttl")
	}
	for _, share := range []pool.Share{{Consumer: "c1"}, {Priority: 1}} {
		if rapid.IntRange(0, 2).Draw(t, "share") == 0 {
			share.Reserved, share.Max = rapid.Int64Range(0, 2).Draw(t, "reserved"), rapid.Int64Range(0, 3).Draw(t, "max")
			l.Shares = append(l.Shares, share)
		}
	}
	return l
}

func (p *pair) claim(t *rapid.T) { p.claimWith(t, false) }

func (p *pair) attempt(t *rapid.T) { p.claimWith(t, true) }

func (p *pair) claimWith(t *rapid.T, attempt bool) {
	p.ids++
	c := pool.Claim{
		ID: fmt.Sprintf("a%04d", p.ids), Consumer: rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "consumer"),
		Key: rapid.SampledFrom([]string{"k1", "k2", "k3", "k4", "k5"}).Draw(t, "key"), Attempt: attempt, Present: p.present(t),
	}
	if !attempt {
		c.Pool = rapid.SampledFrom([]string{"p", "p", "p", "q", "r", "r", "nowhere"}).Draw(t, "pool")
		c.Mode = rapid.SampledFrom([]pool.Mode{pool.Queue, pool.Queue, pool.Refuse}).Draw(t, "mode")
		c.MaxQueueAge = rapid.SampledFrom([]time.Duration{3 * time.Second, time.Minute}).Draw(t, "max queue age")
		c.Contents = p.contents(t, c)
	}
	p.both("claim", func(ctx context.Context, s control.Store) (any, error) { return s.Claim(ctx, c) })
}

// contents are a function of the key, but for a few that conflict.
func (p *pair) contents(t *rapid.T, c pool.Claim) pool.Contents {
	n := len(c.Consumer+c.Key) + int(c.Key[1]) + int(c.Consumer[1])
	if rapid.IntRange(0, 9).Draw(t, "conflict") == 0 {
		n++
	}
	class := rapid.IntRange(0, 9).Draw(t, "the class changed") // which is no conflict
	return pool.Contents{
		HoldOnExit: n%2 == 0 != (class == 0), Priority: int64(n+class/9) % 3,
		Tenant: []string{"t1", "t2", "t3"}[n%3], Class: []string{"small", "large"}[n%2], Template: "base \"'\\ é",
		MemoryMB: int64(n), CPUMilli: 500, Labels: "a=b", Host: []string{"", "h9"}[n/2%2], Prefer: n%2 == 0, Stateful: n%3 == 0,
	}
}

func (p *pair) present(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{0, pool.PresentFor, pool.PresentFor}).Draw(t, "present")
}

// row draws an admission, most often in one of these states.
func (p *pair) row(t *rapid.T, states ...pool.State) pool.Row {
	f := control.Filter{States: states}
	if rapid.IntRange(0, 9).Draw(t, "any state") == 0 {
		f.States = nil
	}
	rows, err := p.model.List(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		return pool.Row{ID: "nobody", Gen: 1, Epoch: 1}
	}
	return rapid.SampledFrom(rows).Draw(t, "row")
}

// near draws a number, most often the right one.
func near(t *rapid.T, n int64) int64 {
	return n + rapid.SampledFrom([]int64{0, 0, 0, 0, 0, -1, 1}).Draw(t, "off")
}
