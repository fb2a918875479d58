package up

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/observe"
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
	// Limits that cannot be read are the sampler's to say.
	if limits, err := u.machine.Limits(local.AgentCgroup()); err == nil {
		if w := narrow(limits, local.Host.Budget); w != "" {
			u.Log.Warn(w)
		}
	}
	return nil
}

// narrow says that a cgroup leaves this host less than its machine has: whoever counts on the
// machine's memory would have everything in it killed.
func narrow(limits []gate.Limit, budget gate.Bytes) string {
	var machine, least gate.Limit
	for _, l := range limits {
		if l.Name == hostmem.MachineLimit {
			machine = l
		}
		if least.Name == "" || l.Size < least.Size {
			least = l
		}
	}
	if least.Size >= machine.Size || budget > 0 && budget <= least.Size {
		return ""
	}
	return fmt.Sprintf("this host can hold %s, by the limit of %s, though its machine has %s: the agent and its sandboxes live in that cgroup, and nothing beyond it is promised. Remedy: raise that limit (memory.max, memory.high), or state it as host.budget if it is meant",
		least.Size, least.Name, machine.Size)
}

// observed finds what the file's rules call sandboxes and nobody tracked; nil without rules.
func (u *Up) observed() (func(func(string, []int) bool) ([]agent.Found, error), error) {
	local := &u.File.Local
	if o := local.Host.Observe; o.CgroupParent == "" && o.Match == "" {
		return nil, nil
	}
	rules, err := observe.RulesOf(local.Host)
	if err != nil {
		return nil, err
	}
	o, own := observe.New(local.HostID(), u.machine, rules), u.driver.Parent()
	return func(tracked func(string, []int) bool) ([]agent.Found, error) {
		seen, err := o.Unknown(func(cgroup string, pids []int) bool {
			// The agent's own sandboxes it knows by itself.
			return hostmem.Below(cgroup, own) || pids == nil && hostmem.Below(own, cgroup) || tracked(cgroup, pids)
		})
		found := make([]agent.Found, 0, len(seen))
		for i := range seen {
			found = append(found, u.found(&seen[i]))
		}
		return found, err
	}, nil
}

func (u *Up) found(s *observe.Sighting) agent.Found {
	at, pid, start := s.Cgroup, s.PIDs[0], s.Start
	end := func(ctx context.Context, grace time.Duration) error { return u.driver.EndGroup(ctx, at, grace) }
	if at == "" {
		end = func(ctx context.Context, grace time.Duration) error { return u.driver.EndTree(ctx, pid, start, grace) }
	}
	return agent.Found{
		Stray:    host.Stray{ID: s.ID, Where: at, PIDs: s.PIDs, Resident: s.Resident},
		Stateful: s.Stateful, Started: s.Started, End: end,
	}
}

// agentConfig is what the file says of this machine's agent. Whoever makes it adds who
// registers it, and by which keys it verifies.
func (u *Up) agentConfig() (agent.Config, error) {
	local := &u.File.Local
	group, err := groupOf(local.Host.ReserveGroup)
	if err != nil {
		return agent.Config{}, err
	}
	observed, err := u.observed()
	return agent.Config{
		Host: local.HostConfig(runtime.NumCPU(), nil), Budget: local.Host.Budget,
		Dir: local.DataDir, Socket: local.AgentSocket(),
		SampleLimits: local.Host.SampleLimits, SampleSandboxes: local.Host.SampleSandboxes,
		Machine: u.machine, Driver: u.driver, Hooks: hooksOf(&local.Host.Hooks), ReserveGroup: group, Show: control.ShowHost, ShowLessons: control.ShowLessons, Log: u.Log,
		Observed: observed, OutOfGate: agent.OutOfGate(local.Host.OutOfGate),
	}, err
}

func hooksOf(h *config.Hooks) agent.Hooks {
	return agent.Hooks{
		Hibernate: agent.Hook(h.Hibernate), Stop: agent.Hook(h.Stop),
		IntakeShut: agent.Hook(h.IntakeShut), IntakeOpened: agent.Hook(h.IntakeOpened),
	}
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
