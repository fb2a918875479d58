package agent

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/driver"
)

// What becomes of the host's word that a sandbox has to go: who goes, the host decides.

const (
	// evictsAtOnce bounds how many are made to go at once, each perhaps by a command.
	evictsAtOnce = 8
	// goneWithin is how long one may be there after its hook said that it is not.
	goneWithin = time.Second
)

// begin says how long evictions of this life may go on.
func (b *booter) begin(ctx context.Context) { b.ctx = ctx }

// sayReclaim says loudly that on this host the kernel would choose.
func (a *Agent) sayReclaim() {
	c := &a.cfg.Host
	if a.cfg.Driver == nil || c.Enforcement == host.Observe {
		return
	}
	if c.Reclaim == host.ReclaimOff && c.Mode == gate.WorkingSet {
		a.cfg.Log.Warn("reclaim is off on a host that promises more than it has: when the bet is lost the kernel kills, by the oom_score_adj that this agent sets; set host.reclaim to on or dry-run")
		return
	}
	a.cfg.Log.Info("when the bet is lost", "reclaim", a.host.Reclaim())
}

// pay tells of a lost bet, and has those go who have to.
func (a *Agent) pay(o *outcome) {
	if o.lost {
		r := a.host.View().Reading
		a.cfg.Log.Error("the bet is lost: free memory is nearly gone", "reclaim", a.host.Reclaim(),
			"free", r.Free, "headroom", r.Headroom, "lacking", r.Deficit(), "psi_full_percent", float64(r.Full)/100)
	}
	if o.measure {
		select {
		case a.look <- struct{}{}:
		default:
		}
	}
	for _, e := range o.evicts {
		a.cfg.Log.Warn("a sandbox has to go", "id", e.ID, "by", e.By, "class", e.Identity.Class, "priority", e.Priority,
			"idle", e.Idle, "resident", e.Resident, "overshoot", e.Overshoot, "free", e.Free, "headroom", e.Headroom, "lacking", e.Deficit)
		if e.By == host.Ordered {
			go a.booter.evict(e)
		}
	}
	if shut := a.host.Intake() == host.IntakePressure; shut != a.shut {
		a.shut = shut
		v := a.host.View()
		a.booter.hooks.intake(shut, &v)
	}
}

// evict makes a sandbox give its memory back: by the operator's hooks, else by force. What it
// was made to go by is noted before, since its end may come first.
func (b *booter) evict(e host.Eviction) {
	b.mu.Lock()
	t := b.tracked[host.Ref{ID: e.ID, Epoch: e.Epoch}]
	b.mu.Unlock()
	if t == nil {
		return // it has ended meanwhile
	}
	select {
	case b.atOnce <- struct{}{}:
		defer func() { <-b.atOnce }()
	case <-t.told:
		return
	}
	for _, way := range []struct {
		hook *Hook
		name string
		by   host.Means
	}{{&b.agent.cfg.Hooks.Hibernate, hookHibernate, host.Hibernated}, {&b.agent.cfg.Hooks.Stop, hookStop, host.StoppedBy}} {
		if !way.hook.set() {
			continue
		}
		b.makes(t, way.by)
		if err := b.hooks.call(b.ctx, way.name, way.hook, b.hooks.ofSandbox(way.name, &e)); err != nil {
			b.agent.cfg.Log.Error("a hook failed for a sandbox that has to go", "hook", way.name, "id", e.ID, "err", err)
			continue
		}
		if b.goes(t) {
			return
		}
		b.agent.cfg.Log.Warn("a sandbox is still there after its hook: it is killed", "hook", way.name, "id", e.ID)
		b.kill(t, "")
		return
	}
	b.kill(t, host.Killed)
}

func (b *booter) makes(t *tracked, by host.Means) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.by = by
}

// goes waits a moment for the end that a hook has promised.
func (b *booter) goes(t *tracked) bool {
	patience := time.NewTimer(goneWithin)
	defer patience.Stop()
	select {
	case <-t.told:
		return true
	case <-patience.C:
		return false
	}
}

// kill ends it by force, unless this agent ends first: the next one goes on.
func (b *booter) kill(t *tracked, by host.Means) {
	if b.ctx.Err() != nil {
		return
	}
	if by != "" {
		b.makes(t, by)
	}
	if err := t.process.Kill(t.cgroup); err != nil && !errors.Is(err, driver.ErrDetached) {
		b.agent.cfg.Log.Error("a sandbox that has to go is not gone", "id", t.ref.ID, "err", err)
	}
}

// evictionOf is the order that an earlier life of the agent did not carry out.
func evictionOf(s *host.Sandbox) host.Eviction {
	return host.Eviction{
		ID: s.ID, Epoch: s.Epoch, Identity: s.Identity, Process: s.Process, Priority: s.Ask.Priority, Resident: s.Usage.Resident,
		By: host.Ordered,
	}
}

// awayMeans is what became of one that ended while no agent was there: who was told to go did.
func awayMeans(s *host.Sandbox) host.Means {
	if s.Evicting != "" {
		return host.Killed
	}
	return ""
}

// hostRanOut says whether the kernel ended a sandbox for want of the host's memory. One that met
// its own limit may start again where it was; this one comes back through the gate.
func (b *booter) hostRanOut(t *tracked, exit driver.Exit) bool {
	if exit.Signal != syscall.SIGKILL && !exit.Unknown {
		return false
	}
	if t.cgroup == "" {
		return exit.OOM && !exit.OwnLimit
	}
	after, err := b.agent.cfg.Machine.OOM(t.cgroup)
	return err == nil && after.Kills > t.before.Kills && !after.OwnLimit
}
