package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// killOrder tells the kernel in which order this host would have its sandboxes go, whether
// reclaim is on or not: were it ever to come to that, it should choose as we would. A score is a
// thousandth of the machine's memory to the kernel, added to what a process holds: so a large
// sandbox far back in the order may still go before a small one at its head.
type killOrder struct {
	agent    *Agent
	machine  *hostmem.Machine
	said     map[host.Ref]int // placement -> its score
	unable   bool             // it was said that a score cannot be lowered here
	counted  bool             // the kernel's kills, in this life
	lastKill int64
}

// The scores. Who keeps state is left where it was: at zero where the driver booted it.
const (
	oomFirst = 900 // who goes first
	oomLast  = 300 // the last of those that go
	oomStep  = 50  // less than that is no other place
)

// scoreAt is the score of a place in the order of so many.
func scoreAt(place, of int) int {
	if of < 2 {
		return oomFirst
	}
	return oomFirst - (oomFirst-oomLast)*place/(of-1)/oomStep*oomStep
}

// tell writes the scores that have moved.
func (o *killOrder) tell(ctx context.Context) {
	if o.agent.cfg.Driver == nil {
		return
	}
	var first []host.Ref
	if o.agent.Look(ctx, func(h *host.Host) { first, _ = h.VictimOrder() }) != nil {
		return
	}
	said := make(map[host.Ref]int, len(first))
	table := driver.Table(sync.OnceValues(o.machine.Processes))
	for i, ref := range first {
		said[ref] = scoreAt(i, len(first))
		if was, ok := o.said[ref]; !ok || was != said[ref] {
			o.set(ref, said[ref], table)
		}
	}
	o.said = said
}

func (o *killOrder) set(ref host.Ref, score int, table driver.Table) {
	err := o.agent.booter.score(ref, score, table)
	switch {
	case err == nil:
	case errors.Is(err, driver.ErrNotLowered):
		if !o.unable {
			o.agent.cfg.Log.Warn("the kernel's order of victims is ours only in part", "err", err)
		}
		o.unable = true
	default:
		o.agent.cfg.Log.Error("the kernel was not told when a sandbox should go", "id", ref.ID, "err", err)
	}
}

// score sets it for all processes of a sandbox.
func (b *booter) score(ref host.Ref, score int, table driver.Table) error {
	b.mu.Lock()
	t := b.tracked[ref]
	b.mu.Unlock()
	if t == nil {
		return nil
	}
	return t.process.SetOOMScoreAdj(score, t.cgroup, table)
}

// count tells the host of the kernel's kills: what happened before the first look of this life
// happened while the agent was away.
func (o *killOrder) count(ctx context.Context) {
	if o.agent.cfg.Driver == nil {
		return
	}
	n, ok, err := o.machine.Kills(o.agent.cfg.Driver.Parent())
	if err != nil {
		o.agent.cfg.Log.Error("the kernel's kills are not known", "err", err)
	}
	if !ok || err != nil || o.counted && n == o.lastKill {
		return
	}
	if o.counted && n > o.lastKill {
		o.agent.cfg.Log.Error("the kernel's out-of-memory killer has killed", "times", n-o.lastKill, "since_boot", n, "for", killedFor(o.machine))
	}
	if _, err := o.agent.Do(ctx, host.KillCount{N: n, Away: !o.counted}); err == nil {
		o.counted, o.lastKill = true, n
	}
}

// killedFor says for want of whose memory the kernel's kills were that are counted.
func killedFor(m *hostmem.Machine) string {
	if m.Memory().Version == 2 {
		return "want of the host's memory, or at a limit that is no sandbox's own"
	}
	return "want of the host's memory, or at a cgroup's own limit: not told apart without cgroup v2"
}
