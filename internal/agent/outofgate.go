package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// Found is what an operator's rule takes for a sandbox, and no ledger knows.
type Found struct {
	host.Stray
	Stateful bool
	Started  host.Instant                                         // the eldest of its processes
	End      func(ctx context.Context, grace time.Duration) error // stops it: politely first
}

// OutOfGate says what becomes of what an operator's rule takes for a sandbox, and has no ticket.
type OutOfGate string

// What becomes of it. What keeps state is only told, and so is whatever may once have had a
// ticket.
const (
	AlarmOutOfGate OutOfGate = "alarm" // it is told, and charged
	StopOutOfGate  OutOfGate = "stop"  // and stopped, if nobody tracked it within the life of a reservation
)

// observeEvery is how often the operator's rules are applied: a pattern has every command line
// of the machine read.
const observeEvery = 5 * time.Second

// settlesWithin is how long a booter may take from making a sandbox to tracking it: until then
// it is not out of gate.
const settlesWithin = 5 * time.Second

// outside finds what runs out of gate, for one life of an agent. The sampler owns it.
type outside struct {
	agent  *Agent
	seen   map[string]*sighting // id and place -> since when
	failed string               // what the last look failed of; "" if it did not

	observed   []Found // by the operator's rules
	observedAt time.Time
}

func newOutside(a *Agent) *outside { return &outside{agent: a, seen: map[string]*sighting{}} }

// sighting is one that was found.
type sighting struct {
	first, last time.Time
	told, ended bool
}

// settled is one that has been there for long enough, or had a ticket once.
type settled struct {
	*Found
	seen *sighting
}

// look tells the host what runs out of gate. Where that cannot be found out its last word
// stands: what was there may still be.
func (o *outside) look(ctx context.Context, now time.Time, known []host.Sandbox) {
	all, err := o.find(now, known)
	if err != nil {
		if o.failed != err.Error() && ctx.Err() == nil {
			o.agent.cfg.Log.Error("what runs out of gate is not known; what was last seen stands", "err", err)
		}
		o.failed = err.Error()
		return
	}
	o.failed = ""
	strays, there := make([]host.Stray, 0, len(all)), make([]settled, 0, len(all))
	for i := range all {
		f := &all[i]
		if s := o.sight(&f.Stray, now); f.Lost || now.Sub(s.first) >= settlesWithin {
			strays, there = append(strays, f.Stray), append(there, settled{f, s})
		}
	}
	maps.DeleteFunc(o.seen, func(_ string, s *sighting) bool { return s.last != now })
	if _, err := o.agent.Do(ctx, host.OutOfGate{Strays: strays}); err != nil {
		return
	}
	for _, f := range there {
		o.alarm(f)
		o.end(ctx, f, now)
	}
}

func (o *outside) sight(s *host.Stray, now time.Time) *sighting {
	name := s.ID + "\x00" + s.Where
	if o.seen[name] == nil {
		o.seen[name] = &sighting{first: now}
	}
	o.seen[name].last = now
	return o.seen[name]
}

// alarm says once of each that it is there.
func (o *outside) alarm(f settled) {
	if f.seen.told {
		return
	}
	f.seen.told = true
	o.agent.cfg.Log.Error("a sandbox runs out of gate: no ledger knows it", "id", f.ID, "cgroup", f.Where, "pids", f.PIDs, "resident", f.Resident, "had_ticket", f.Lost)
}

// end stops what never had a ticket, where the operator says so. What began before this
// host's memory did may have had one.
func (o *outside) end(ctx context.Context, f settled, now time.Time) {
	a, s := o.agent, f.seen
	switch {
	case a.cfg.OutOfGate != StopOutOfGate, f.Lost, f.Stateful, f.End == nil, s.ended:
		return
	case now.Sub(s.first) < a.cfg.Host.BootWithin, f.Started < a.begun, !a.enforces(ctx):
		return
	}
	s.ended = true
	a.cfg.Log.Error("what runs out of gate is stopped, as host.out_of_gate says", "id", f.ID, "cgroup", f.Where, "pids", f.PIDs)
	go func() {
		if err := f.End(ctx, a.cfg.Driver.Grace()); err != nil && ctx.Err() == nil {
			a.cfg.Log.Error("what runs out of gate was not stopped", "id", f.ID, "err", err)
		}
	}()
}

// enforces says whether nothing boots here without a ticket.
func (a *Agent) enforces(ctx context.Context) bool {
	v, err := a.Verdict(ctx)
	return err == nil && v.Enforcement == host.Enforce && !v.Bypass
}

// find is all that runs here and is no known sandbox.
func (o *outside) find(now time.Time, known []host.Sandbox) ([]Found, error) {
	lost, err := o.agent.booter.lost(known)
	if err != nil {
		return nil, err
	}
	if observed := o.agent.cfg.Observed; observed != nil && now.Sub(o.observedAt) >= observeEvery {
		if o.observed, err = observed(trackedOf(known)); err != nil {
			return nil, err
		}
		o.observedAt = now
	}
	all := make([]Found, 0, len(lost)+len(o.observed))
	for _, s := range lost {
		all = append(all, Found{Stray: s})
	}
	if len(o.observed) == 0 {
		return all, nil
	}
	is := trackedOf(known)
	for _, f := range o.observed {
		if !is(f.Where, f.PIDs) { // tracked meanwhile
			all = append(all, f)
		}
	}
	return all, nil
}

// trackedOf makes what says whether a cgroup or a process is a known sandbox's.
func trackedOf(known []host.Sandbox) func(cgroup string, pids []int) bool {
	groups, processes := map[string]bool{}, map[int]bool{}
	for i := range known {
		if p := known[i].Process; p.Cgroup != "" {
			groups[p.Cgroup] = true
		} else if p.Pid > 0 {
			processes[p.Pid] = true
		}
	}
	return func(cgroup string, pids []int) bool {
		for _, pid := range pids {
			if processes[pid] {
				return true
			}
		}
		return groups[cgroup]
	}
}

// lost are sandboxes of the agent's making that run, and that its ledger does not know.
func (b *booter) lost(known []host.Sandbox) ([]host.Stray, error) {
	strays, err := b.strays(known)
	if err != nil {
		return nil, err
	}
	var all []host.Stray
	for _, s := range strays {
		if len(s.PIDs) > 0 {
			all = append(all, host.Stray{ID: s.ID, Where: s.Cgroup, PIDs: s.PIDs, Lost: true, Resident: b.held(s.Cgroup, s.PIDs)})
		}
	}
	return all, nil
}

// held measures a sandbox that runs out of gate, in its cgroup or by its processes: what cannot
// be measured holds nothing, and the limits have it all the same.
func (b *booter) held(cgroup string, pids []int) gate.Bytes {
	machine := b.agent.cfg.Machine
	if r, err := machine.ResidentCgroup(cgroup); err == nil {
		return r.Bytes
	}
	var sum gate.Bytes
	for _, pid := range pids {
		if r, err := machine.ResidentProcess(pid); err == nil {
			sum = sum.Add(r.Bytes)
		}
	}
	return sum
}

// OutOfGate is what runs beside what is held, as it is now; where that cannot be found out, as
// it was.
func (a *Agent) OutOfGate(held *host.Held) []host.Stray {
	lost, err := a.booter.lost(held.Sandboxes)
	if err != nil {
		a.cfg.Log.Error("what runs out of gate is not known; what was last seen stands", "err", err)
		return held.OutOfGate
	}
	for _, s := range held.OutOfGate {
		if !s.Lost {
			lost = append(lost, s)
		}
	}
	return lost
}

// Clear ends what runs out of gate under an id. What the agent watches it leaves alone.
func (a *Agent) Clear(_ context.Context, id string) error {
	if a.cfg.Driver == nil {
		return nil // nothing here runs that could
	}
	return a.cfg.Driver.Remove(id)
}

// endLost stops sandboxes of which the ledger was lost, as their own callers want it.
func (b *booter) endLost(ref host.Ref) {
	ctx, cancel := context.WithTimeout(context.Background(), detachedFor)
	defer cancel()
	v, err := b.agent.View(ctx)
	if err != nil {
		return // it is asked for again
	}
	strays, err := b.strays(v.Sandboxes)
	for _, s := range strays {
		if s.ID != ref.ID {
			continue
		}
		err = b.agent.cfg.Driver.EndGroup(ctx, s.Cgroup, b.agent.cfg.Driver.Grace())
		if err == nil {
			err = b.agent.cfg.Driver.Remove(s.ID)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.agent.cfg.Log.Error("what its caller released runs on, out of gate", "id", ref.ID, "err", fmt.Errorf("stop it: %w", err))
	}
}
