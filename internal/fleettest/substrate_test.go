package fleettest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/substrate"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// provider boots what tickets admit, and can list what runs.
type provider struct {
	book   *book
	client *client.Client
	gates  map[string]*substrate.Gate // audience -> gate

	mu      sync.Mutex // guards what follows
	booted  int
	running map[string]sandbox // instance -> what runs
}

type sandbox struct {
	pool  string
	id    string
	epoch int64
	until time.Time
}

func newProvider(b *book, c *client.Client) *provider {
	p := &provider{book: b, client: c, gates: map[string]*substrate.Gate{}, running: map[string]sandbox{}}
	for _, audience := range []string{"shared", "small"} {
		ring, err := ticket.ParseKeyring([]byte(keysFile))
		if err != nil {
			b.t.Fatal(err)
		}
		keys, err := ring.Audience(ticket.ForSubstrate(audience))
		if err != nil {
			b.t.Fatal(err)
		}
		p.gates[audience] = substrate.New(c, keys)
	}
	return p
}

// boot redeems a ticket and runs its sandbox for a while; sometimes two instances try at once.
func (p *provider) boot(ctx context.Context, a *api.Admission, runs time.Duration) error {
	instances := []string{p.instance()}
	if rand.IntN(8) == 0 {
		instances = append(instances, p.instance())
	}
	errs := make([]error, len(instances))
	var all sync.WaitGroup
	for i, instance := range instances {
		all.Go(func() { errs[i] = p.redeem(ctx, a, instance, runs) })
	}
	all.Wait()
	return errs[0]
}

func (p *provider) instance() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.booted++
	return fmt.Sprintf("vm-%d", p.booted)
}

func (p *provider) redeem(ctx context.Context, a *api.Admission, instance string, runs time.Duration) error {
	_, err := p.gates[a.Audience].Redeem(ctx, a.Ticket, instance)
	if err != nil {
		p.book.count("not redeemed")
		return err
	}
	p.book.redeem(a.ID, a.Epoch, instance)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[instance] = sandbox{a.Audience, a.ID, a.Epoch, time.Now().Add(runs)}
	return nil
}

// end stops the sandbox of an admission, as a caller does before it gives it back.
func (p *provider) end(a *api.Admission) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.running, func(_ string, s sandbox) bool { return s.id == a.ID && s.epoch == a.Epoch })
}

// misuse redeems the ticket of an admission that was given back, which nothing may boot.
func (p *provider) misuse(ctx context.Context, a *api.Admission) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := p.gates[a.Audience].Redeem(ctx, a.Ticket, p.instance())
	if err == nil {
		p.book.t.Errorf("%s at epoch %d was redeemed after its release", a.ID, a.Epoch)
	}
	if errors.Is(err, api.TicketRejected) {
		p.book.count("rejected after its release")
	}
}

// list says what runs, again and again, until ctx ends.
func (p *provider) list(ctx context.Context) {
	for ctx.Err() == nil {
		for pool := range p.gates {
			p.report(ctx, pool)
		}
		sleep(ctx, time.Second)
	}
}

func (p *provider) report(ctx context.Context, pool string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := p.client.ReportRunning(ctx, pool, api.RunningReport{Complete: true, Running: p.of(pool)}); err == nil {
		p.book.count("reported")
	}
}

// of lists what runs in a pool, after what has ended is gone.
func (p *provider) of(pool string) []api.RunningSandbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.running, func(_ string, s sandbox) bool { return time.Now().After(s.until) })
	list := []api.RunningSandbox{}
	for _, instance := range slices.Sorted(maps.Keys(p.running)) {
		if s := p.running[instance]; s.pool == pool {
			list = append(list, api.RunningSandbox{ID: s.id, Epoch: s.epoch, Instance: instance})
		}
	}
	return list
}
