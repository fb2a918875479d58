package agent

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// sampler measures for one life of an agent.
type sampler struct {
	agent  *Agent
	failed string          // what the last sample failed of; "" if it did not
	unseen map[string]bool // ids of sandboxes that could not be measured, each said once
}

// sampleUntil measures limits often and sandboxes less often, until ctx ends.
func (a *Agent) sampleUntil(ctx context.Context) {
	s := sampler{agent: a, unseen: map[string]bool{}}
	tick := time.NewTicker(a.cfg.SampleLimits)
	defer tick.Stop()
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
		case <-tick.C:
		}
	}
}

// sample tells the host what was measured. Where nothing could be, that is told too, and
// nothing is free: room that was not measured is not promised.
func (s *sampler) sample(ctx context.Context, full bool) {
	ev, err := s.measure(ctx, full)
	if err != nil {
		ev = host.Sample{}
	}
	if ctx.Err() == nil {
		s.say(err)
	}
	s.agent.Do(ctx, ev)
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
		view, err := s.agent.View(ctx)
		if err != nil {
			return ev, err
		}
		ev.Sandboxes = s.residents(view.Sandboxes)
	}
	limits, err := s.agent.cfg.Machine.Limits(s.agent.cfg.Driver.Parent())
	if err != nil {
		return ev, err
	}
	psi, ok, err := s.agent.cfg.Machine.Pressure("")
	if err != nil {
		return ev, err
	}
	ev.Limits, ev.PSI, ev.Some, ev.FullPSI = limits, ok, psi.SomeAvg10, psi.FullAvg10
	return ev, nil
}

// residents measures every sandbox that has a process. One that vanished meanwhile keeps
// its last figure until its end is told.
func (s *sampler) residents(sandboxes []host.Sandbox) []host.Resident {
	out := make([]host.Resident, 0, len(sandboxes))
	unseen := map[string]bool{}
	var table *hostmem.Processes
	for _, b := range sandboxes {
		if b.Phase != host.Running {
			continue
		}
		r, err := s.resident(b, &table)
		switch {
		case err == nil:
			out = append(out, host.Resident{ID: b.ID, Bytes: r.Bytes, Swapped: r.Swapped})
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

// resident reads a sandbox's own cgroup, or its process tree where it has none. The table
// of processes is read once a sample, by the first that needs it.
func (s *sampler) resident(b host.Sandbox, table **hostmem.Processes) (hostmem.Resident, error) {
	machine := s.agent.cfg.Machine
	if b.Process.Cgroup != "" {
		return machine.ResidentCgroup(b.Process.Cgroup)
	}
	if *table == nil {
		t, err := machine.Processes()
		if err != nil {
			return hostmem.Resident{}, err
		}
		*table = t
	}
	return (*table).Resident(b.Process.Pid)
}
