package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// sampler measures for one life of an agent.
type sampler struct {
	agent   *Agent
	failed  string          // what the last sample failed of; "" if it did not
	unseen  map[string]bool // ids of sandboxes that could not be measured, each said once
	stalls  hostmem.Stalls
	outside *outside
	huge    map[string]hostmem.HugePages // declared dimension -> the pages that it counts
	machine *hostmem.Machine             // which holds the sandboxes' files open
	table   *hostmem.Processes
	tableAt time.Time
	known   []host.Sandbox // as of the last full sample; its memory is used again
	base    gate.Bytes     // what the cgroup of all sandboxes held at the last full sample
	order   killOrder
}

// tableFor is how long a table of processes is good: to read it costs more than to measure those
// in it, and a child that a sandbox has got since counts as other use of the host meanwhile.
const tableFor = 3 * time.Second

func newSampler(a *Agent) *sampler {
	s := &sampler{
		agent: a, unseen: map[string]bool{}, outside: newOutside(a), huge: hugeDims(a),
		order: killOrder{agent: a, said: map[host.Ref]int{}},
	}
	if a.cfg.Measure == nil {
		s.machine = a.cfg.Machine.Keep()
		s.order.machine = s.machine
	}
	return s
}

func (s *sampler) close() {
	if s.machine != nil {
		s.machine.Close()
	}
}

// hugeDims are the declared dimensions that the kernel counts.
func hugeDims(a *Agent) map[string]hostmem.HugePages {
	if a.cfg.Machine == nil || len(a.cfg.Host.Dims) == 0 {
		return nil
	}
	counted := map[string]hostmem.HugePages{}
	for _, pages := range a.cfg.Machine.HugePages() {
		for _, d := range a.cfg.Host.Dims {
			if pages.Counts(d.Name) {
				counted[d.Name] = pages
			}
		}
	}
	return counted
}

// Sampler returns what measures this host once, for whoever wants to know what that costs, and
// what ends it. One goroutine calls them, while Run runs.
func (a *Agent) Sampler() (sample func(ctx context.Context, full bool), end func()) {
	s := newSampler(a)
	return s.sample, s.close
}

// sampleUntil measures limits often and sandboxes less often, until ctx ends; and at once when
// the kernel says that tasks stall.
func (a *Agent) sampleUntil(ctx context.Context) {
	s := newSampler(a)
	defer s.close()
	tick := time.NewTicker(a.cfg.SampleLimits)
	defer tick.Stop()
	stalling := make(chan struct{}, 1)
	if a.cfg.Measure == nil {
		var watching sync.WaitGroup
		defer watching.Wait()
		watching.Go(func() { a.awaitStalls(ctx, stalling) })
	}
	var full time.Time
	for {
		now := time.Now()
		due := now.Sub(full) >= a.cfg.SampleSandboxes
		if due {
			full = now
		}
		s.sample(ctx, due)
		select {
		case <-ctx.Done():
			return
		case <-a.look:
			full = time.Time{} // due now
		case <-tick.C:
		case <-stalling:
		}
	}
}

// awaitStalls passes on each wake-up of the kernel, until ctx ends. Where the kernel gives none
// its counters tell the same at the next sample.
func (a *Agent) awaitStalls(ctx context.Context, stalling chan<- struct{}) {
	t, err := a.cfg.Machine.Trigger(a.cfg.Host.Marks.SomeShut)
	if err != nil {
		a.cfg.Log.Info("the kernel does not wake us when tasks stall for memory; each sample reads its counters", "err", err)
		return
	}
	defer t.Close()
	for {
		if err := t.Wait(ctx); err != nil {
			if ctx.Err() == nil {
				a.cfg.Log.Warn("the kernel no longer wakes us when tasks stall for memory; each sample reads its counters", "err", err)
			}
			return
		}
		select {
		case stalling <- struct{}{}:
		default: // it is about to look
		}
	}
}

// sample tells the host what was measured. Where nothing could be, that is told too, and
// nothing is free: room that was not measured is not promised.
func (s *sampler) sample(ctx context.Context, full bool) {
	if full {
		s.order.count(ctx) // before anything is promised: it may say that there was too much
	}
	ev, err := s.measure(ctx, full)
	if err != nil {
		ev = host.Sample{}
	}
	if ctx.Err() == nil {
		s.say(err)
	}
	s.agent.Do(ctx, ev)
	if full && err == nil {
		s.order.tell(ctx)
	}
}

// say says that samples fail, or no longer do, once.
func (s *sampler) say(err error) {
	switch {
	case err == nil && s.failed != "":
		s.agent.cfg.Log.Info("the host is measured again")
		s.failed = ""
	case err != nil && s.failed != err.Error():
		s.agent.cfg.Log.Error("the host cannot be measured; nothing is promised until it can", "err", err)
		s.failed = err.Error()
	}
}

// measure reads sandboxes first and limits last, so that skew only errs safe.
func (s *sampler) measure(ctx context.Context, full bool) (host.Sample, error) {
	if m := s.agent.cfg.Measure; m != nil {
		return m()
	}
	ev := host.Sample{Budget: s.agent.cfg.Budget, Full: full}
	if full {
		known := s.known[:0]
		s.known = nil // a look that is given up may still come
		if err := s.agent.Look(ctx, func(h *host.Host) { known = h.Charged(known) }); err != nil {
			return ev, err
		}
		s.known = known
		s.outside.look(ctx, time.Now(), known)
		ev.Sandboxes = s.residents(known)
		ev.Dims = s.hugeFree()
		ev.Refaults.N, ev.Refaults.Known = s.machine.FileRefaults()
		s.machine.Turn()
	}
	s.watchBudget(&ev)
	limits, err := s.machine.Limits(s.agent.cfg.Driver.Parent())
	if err != nil {
		return ev, err
	}
	psi, ok, err := s.machine.Pressure("")
	if err != nil {
		return ev, err
	}
	ev.Limits, ev.PSI = limits, ok
	if ok { // the average tells late of a burst, the last second soon forgets it
		some, full := s.stalls.Add(hostmem.BootTime(), psi)
		ev.Some, ev.FullPSI = max(some, psi.SomeAvg10), max(full, psi.FullAvg10)
	}
	return ev, nil
}

// hugeFree counts the huge pages that nobody has.
func (s *sampler) hugeFree() (free []gate.Dim) {
	for name, pages := range s.huge {
		if n, err := pages.Free(); err == nil {
			free = append(free, gate.Dim{Name: name, N: n})
		}
	}
	return free
}

// hugeHeld counts those that a sandbox has.
func (s *sampler) hugeHeld(b *host.Sandbox) (held []gate.Dim) {
	for name, pages := range s.huge {
		n, counted := int64(0), false
		if b.Process.Cgroup != "" {
			n, counted = s.machine.HeldBy(b.Process.Cgroup, pages)
		}
		if !counted && b.Process.Pid > 0 {
			n = s.machine.HugePagesOf(b.Process.Pid, pages)
		}
		if n > 0 {
			held = append(held, gate.Dim{Name: name, N: n})
		}
	}
	return held
}

// watchBudget says by how much all sandboxes together have grown since each was looked at. What
// runs outside of the driver's cgroups is looked at with the sandboxes alone.
func (s *sampler) watchBudget(ev *host.Sample) {
	if ev.Budget == 0 {
		return
	}
	ev.Under = s.agent.cfg.Driver.Parent()
	all, err := s.machine.ResidentCgroup(ev.Under)
	switch {
	case err != nil: // there is no such cgroup here
		s.base = 0
	case ev.Full:
		s.base = all.Bytes
	default:
		ev.Grown = all.Bytes.Sub(s.base)
	}
}

// residents measures every sandbox that has a process. One that vanished meanwhile keeps
// its last figure until its end is told.
func (s *sampler) residents(sandboxes []host.Sandbox) []host.Resident {
	out := make([]host.Resident, 0, len(sandboxes))
	unseen := map[string]bool{}
	now := time.Now()
	for i := range sandboxes {
		b := &sandboxes[i]
		if b.Phase != host.Running {
			continue
		}
		r, err := s.resident(b, now)
		switch {
		case err == nil:
			out = append(out, host.Resident{
				ID: b.ID, Bytes: r.Bytes, Swapped: r.Swapped, FileCache: r.FileCache, Refaults: r.Refaults, Dims: s.hugeHeld(b), CPU: r.CPU,
			})
		case !errors.Is(err, fs.ErrNotExist):
			unseen[b.ID] = true
			if !s.unseen[b.ID] {
				s.agent.cfg.Log.Error("sandbox not measured; its last figure stands", "id", b.ID, "err", err)
			}
		}
	}
	s.unseen = unseen
	return out
}

// resident reads a sandbox's own cgroup, or its process tree where it has none, or one without
// the memory controller.
func (s *sampler) resident(b *host.Sandbox, now time.Time) (hostmem.Resident, error) {
	driver := s.agent.cfg.Driver
	blind := !driver.Limits() && b.Process.Cgroup == driver.CgroupOf(b.ID)
	if b.Process.Cgroup != "" && !blind {
		return s.machine.ResidentCgroup(b.Process.Cgroup)
	}
	known := s.table != nil && now.Sub(s.tableAt) < tableFor && s.table.Has(b.Process.Pid, b.Process.Start)
	if !known && (s.table == nil || s.tableAt != now) { // it began since, or the table is old
		t, err := s.machine.Processes()
		if err != nil {
			return hostmem.Resident{}, err
		}
		s.table, s.tableAt = t, now
	}
	if !s.table.Has(b.Process.Pid, b.Process.Start) { // whatever has its pid by now is none of it
		return hostmem.Resident{}, fmt.Errorf("process %d: %w", b.Process.Pid, fs.ErrNotExist)
	}
	return s.table.Resident(b.Process.Pid)
}
