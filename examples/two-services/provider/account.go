package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/substrate"
)

// Container is one that runs, or did.
type Container struct {
	Name      string     `json:"name"`
	Class     string     `json:"class"`
	Pool      string     `json:"pool"`
	Admission string     `json:"admission"`
	Epoch     int64      `json:"epoch"`
	State     string     `json:"state"` // running or exited
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
}

// Account is what the provider counts.
type Account struct {
	Notice  string           `json:"notice"`
	Limit   int              `json:"limit"`
	Running int              `json:"running"`
	Peak    int              `json:"peak"`
	Boots   int64            `json:"boots"`
	Refused map[string]int64 `json:"refused"`  // reason -> boots that were refused for it
	AtLimit int64            `json:"at_limit"` // boots that the account's limit refused, though they were admitted
}

const notice = "a fake provider: it boots nothing real"

// provider is the account with its containers.
type provider struct {
	gate *substrate.Gate

	mu         sync.Mutex // guards what follows
	account    Account
	containers map[string]*Container // name -> container; the ended ones, too
}

func newProvider(gate *substrate.Gate, limit int) *provider {
	return &provider{
		gate: gate, containers: map[string]*Container{},
		account: Account{Notice: notice, Limit: limit, Refused: map[string]int64{}},
	}
}

// errAtLimit is the provider's own no, of the kind that the gate is there to spare everybody.
var errAtLimit = errors.New("the account runs as many containers as it may")

// boot starts a container that ends by itself after a time. The same name again is the same container, and
// is started once; an answer that was lost can so be asked for again.
func (p *provider) boot(ctx context.Context, name, ticket string, lasts time.Duration) (c Container, fresh bool, err error) {
	if c, ok := p.look(name); ok {
		return c, false, nil
	}
	redeemed, err := p.gate.Redeem(ctx, ticket, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		var no *substrate.Rejected
		if errors.As(err, &no) {
			p.account.Refused[no.Reason.String()]++
		}
		return Container{}, false, err
	}
	if c, ok := p.containers[name]; ok { // the same call came twice at once
		return *c, false, nil
	}
	if p.account.Running >= p.account.Limit {
		p.account.AtLimit++
		return Container{}, false, errAtLimit
	}
	p.account.Boots++
	p.account.Running++
	p.account.Peak = max(p.account.Peak, p.account.Running)
	made := &Container{
		Name: name, Class: redeemed.Class, Pool: redeemed.Pool, Admission: redeemed.ID, Epoch: redeemed.Epoch,
		State: "running", StartedAt: time.Now(),
	}
	p.containers[name] = made
	time.AfterFunc(lasts, func() { p.end(name) })
	return *made, true, nil
}

func (p *provider) look(name string) (Container, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.containers[name]
	if !ok {
		return Container{}, false
	}
	return *c, true
}

// end stops a container; one that has ended, or never was, is no error.
func (p *provider) end(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.containers[name]; ok && c.State == "running" {
		now := time.Now()
		c.State, c.EndedAt = "exited", &now
		p.account.Running--
	}
}

func (p *provider) count() Account {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.account
	a.Refused = map[string]int64{}
	for reason, n := range p.account.Refused {
		a.Refused[reason] = n
	}
	return a
}

// running lists what runs, by pool: that is what keeps a slot whose caller is silent.
func (p *provider) running() map[string][]api.RunningSandbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string][]api.RunningSandbox{}
	for _, c := range p.containers {
		if c.State == "running" {
			all[c.Pool] = append(all[c.Pool], api.RunningSandbox{ID: c.Admission, Epoch: c.Epoch, Instance: c.Name})
		}
	}
	return all
}
