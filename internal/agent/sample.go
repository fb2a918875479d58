package agent

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// sampleUntil measures limits often and sandboxes less often, until ctx ends.
func (a *Agent) sampleUntil(ctx context.Context) {
	tick := time.NewTicker(a.cfg.SampleLimits)
	defer tick.Stop()
	var full time.Time
	for {
		now := time.Now()
		due := now.Sub(full) >= a.cfg.SampleSandboxes
		if due {
			full = now
		}
		if err := a.sample(ctx, due); err != nil && ctx.Err() == nil {
			a.cfg.Log.Error("sample failed; the last good one stands", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sample reads sandboxes first and limits last, so that skew only errs safe.
func (a *Agent) sample(ctx context.Context, full bool) error {
	ev := host.Sample{Budget: a.cfg.Budget, Full: full}
	if full {
		view, err := a.View(ctx)
		if err != nil {
			return err
		}
		ev.Sandboxes = a.residents(view.Sandboxes)
	}
	limits, err := a.cfg.Machine.Limits(a.cfg.Driver.Parent())
	if err != nil {
		return err
	}
	psi, ok, err := a.cfg.Machine.Pressure("")
	if err != nil {
		return err
	}
	ev.Limits, ev.PSI, ev.Some, ev.FullPSI = limits, ok, psi.SomeAvg10, psi.FullAvg10
	_, err = a.Do(ctx, ev)
	return err
}

// residents measures every sandbox that has a process. One that vanished meanwhile keeps
// its last figure until its end is told.
func (a *Agent) residents(sandboxes []host.Sandbox) []host.Resident {
	out := make([]host.Resident, 0, len(sandboxes))
	var table *hostmem.Processes
	for _, s := range sandboxes {
		if s.Phase != host.Running {
			continue
		}
		r, err := a.resident(s, &table)
		if err == nil {
			out = append(out, host.Resident{ID: s.ID, Bytes: r.Bytes, Swapped: r.Swapped})
		} else if !errors.Is(err, fs.ErrNotExist) {
			a.cfg.Log.Error("sandbox not measured", "id", s.ID, "err", err)
		}
	}
	return out
}

// resident reads a sandbox's own cgroup, or its process tree where it has none. The table
// of processes is read once a sample, by the first that needs it.
func (a *Agent) resident(s host.Sandbox, table **hostmem.Processes) (hostmem.Resident, error) {
	if s.Process.Cgroup != "" {
		return a.cfg.Machine.ResidentCgroup(s.Process.Cgroup)
	}
	if *table == nil {
		t, err := a.cfg.Machine.Processes()
		if err != nil {
			return hostmem.Resident{}, err
		}
		*table = t
	}
	return (*table).Resident(s.Process.Pid)
}
