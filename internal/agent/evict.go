package agent

import (
	"context"
	"errors"
	"slices"
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
	// dyingWithin is that of one whose hook failed, and may have ended it all the same.
	dyingWithin = 100 * time.Millisecond
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

// evict makes a sandbox give its memory back: by the operator's hooks, one after the other while
// it is still there, and in the end by force.
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
	force := host.Killed
	for _, way := range b.ways() {
		if b.asks(t, &way, &e) {
			return
		}
		force = host.KilledAfter
	}
	b.kill(t, force)
}

// way is a hook that may make a sandbox go.
type way struct {
	hook *Hook
	name string
	by   host.Means
}

// ways are those that the operator has set, in the order in which they are tried.
func (b *booter) ways() []way {
	h := &b.agent.cfg.Hooks
	return slices.DeleteFunc([]way{{&h.Hibernate, hookHibernate, host.Hibernated}, {&h.Stop, hookStop, host.StoppedBy}},
		func(w way) bool { return !w.hook.set() })
}

// asks calls a hook, and says whether no other way is needed. What it is gone by is noted before,
// since its end may come first.
func (b *booter) asks(t *tracked, w *way, e *host.Eviction) bool {
	b.makes(t, w.by)
	err := b.hooks.call(b.ctx, w.name, w.hook, b.hooks.ofSandbox(w.name, e))
	if b.ctx.Err() != nil {
		return true // the next life of this agent goes on
	}
	log := b.agent.cfg.Log
	if err != nil {
		log.Error("a hook failed for a sandbox that had to go", "hook", w.name, "id", e.ID, "err", err)
		return b.goes(t, dyingWithin)
	}
	if b.goes(t, goneWithin) {
		return true
	}
	log.Warn("a sandbox is still there after its hook: the next way follows", "hook", w.name, "id", e.ID)
	return false
}

func (b *booter) makes(t *tracked, by host.Means) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.by = by
}

// goes waits a moment for the end that a hook has caused. Of what is gone no other way is tried:
// its pid may be another's.
func (b *booter) goes(t *tracked, within time.Duration) bool {
	patience := time.NewTimer(within)
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
	b.makes(t, by)
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

// awayMeans is what is known of one that ended while no agent was there: that it was told to go.
func awayMeans(s *host.Sandbox) host.Means {
	if s.Evicting != "" {
		return host.Unseen
	}
	return ""
}

// endedBy is what made a sandbox go. While its hook was at it the kernel may have been quicker.
func endedBy(by host.Means, ranOut bool) host.Means {
	if ranOut && (by == host.Hibernated || by == host.StoppedBy) {
		return host.ByKernel
	}
	return by
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
