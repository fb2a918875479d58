package up

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/registry"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// measure finds out what this machine is.
func (u *Up) measure() (err error) {
	local := u.File.Local
	if u.machine, err = hostmem.Discover("/"); err != nil {
		return err
	}
	u.driver, err = driver.New(driver.Config{
		Machine: u.machine, Parent: local.AgentCgroup(), Dir: filepath.Join(local.DataDir, "logs"), Grace: local.Host.StopGrace,
	})
	if err != nil {
		return err
	}
	for _, w := range u.driver.Warnings() {
		u.Log.Warn(w)
	}
	return nil
}

// agentConfig is what the file says of this machine's agent. Whoever makes it adds who
// registers it, and by which keys it verifies.
func (u *Up) agentConfig() (agent.Config, error) {
	local := &u.File.Local
	group, err := groupOf(local.Host.ReserveGroup)
	return agent.Config{
		Host: local.HostConfig(runtime.NumCPU(), nil), Budget: local.Host.Budget,
		Dir: local.DataDir, Socket: local.AgentSocket(),
		SampleLimits: local.Host.SampleLimits, SampleSandboxes: local.Host.SampleSandboxes,
		Machine: u.machine, Driver: u.driver, ReserveGroup: group, Show: control.ShowHost, Log: u.Log,
	}, err
}

// startAgent makes this machine's agent and starts it. One that remembers its former life
// does not need the store for that: what runs is re-adopted, and what was promised boots.
func (u *Up) startAgent(ctx, late context.Context, parts *errgroup.Group) error {
	local := u.File.Local
	keys, err := u.secrets.keys.Audience(local.HostID())
	if err != nil {
		return fmt.Errorf("derive the host's keys: %w", err)
	}
	c, err := u.agentConfig()
	if err != nil {
		return err
	}
	c.Keys, c.Register = keys, u.register
	if u.agent, err = agent.New(ctx, c); err != nil {
		return err
	}
	err = u.keys.use(func(ring ticket.Keyring) error {
		own, err := ring.Audience(local.HostID())
		if err == nil {
			u.agent.SetKeys(own)
		}
		return err
	})
	if err != nil {
		return err
	}
	if u.seam, err = u.agent.Listen(); err != nil {
		return err
	}
	parts.Go(func() error { return u.agent.Run(late) })
	parts.Go(func() error { return u.agent.Serve(late, u.seam) })
	return nil
}

// readmit registers the own host anew that was buried: it is started by whoever runs this
// machine, and needs no token.
func (u *Up) readmit(ctx context.Context) error {
	hosts, err := u.store.Hosts(ctx)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if h.ID == u.File.Local.HostID() && h.State == registry.Buried {
			u.Log.Warn("this machine's host was buried; it is registered anew", "host", h.ID)
			_, err = u.store.Register(ctx, h.ID)
		}
	}
	return err
}

// register takes the host's incarnation from the store, once that is there.
func (u *Up) register(ctx context.Context, host string) (incarnation int64, err error) {
	if err := u.awaitStore(ctx); err != nil {
		return 0, err
	}
	err = u.persist(ctx, "the host's registration", func(ctx context.Context) (err error) {
		incarnation, err = u.store.Register(ctx, host)
		return err
	})
	return incarnation, err
}
