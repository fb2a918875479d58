package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
)

// lose restarts the agent without its state.
func (r *rig) lose() {
	r.t.Helper()
	r.restart(func() { os.Remove(filepath.Join(r.tmp, "state.log")) })
}

// needCgroups skips where sandboxes cannot have any: then nothing finds what was lost.
func (r *rig) needCgroups() {
	r.t.Helper()
	if len(r.cfg.Driver.Warnings()) > 0 {
		r.t.Skip(r.cfg.Driver.Warnings())
	}
}

// A sandbox whose ledger was lost runs: its host says so from the first moment on, to whoever asks
// by whatever epoch, charges what it holds, boots nothing else of that admission, and stops it
// for its own caller.
func TestWhatALostStateLeavesRunning(t *testing.T) {
	r := startRig(t)
	r.needCgroups()
	pid := r.detached("db", 7, "exec sleep 1000")
	r.lose()
	if _, running, err := r.Holds(t.Context(), host.Ref{ID: "db", Epoch: 7}); !running || err != nil {
		t.Errorf("its slot would be given away: running %v, %v", running, err)
	}
	answer, err := r.tryReserve("db", 8, time.Minute, ask())
	if err != nil || answer.Denial != host.StillRunning {
		t.Errorf("a second one of the admission: %q, %v", answer.Denial, err)
	}
	r.eventually("it to be charged", func() bool { return r.view().Outside > 0 })
	v := r.view()
	if len(v.OutOfGate) != 1 || !v.OutOfGate[0].Lost || v.OutOfGate[0].ID != "db" || v.OutOfGate[0].PIDs[0] != pid {
		t.Errorf("%+v", v.OutOfGate)
	}
	for _, l := range v.Limits {
		if l.Name == host.BudgetLimit && l.Used != v.Outside {
			t.Errorf("%v count against the budget, %v are held", l.Used, v.Outside)
		}
	}
	// A restart with its state does not change that.
	r.restart()
	if _, running, _ := r.Holds(t.Context(), host.Ref{ID: "db", Epoch: 7}); !running || !alive(pid) {
		t.Error("forgotten by the next life")
	}
	if a, err := r.Do(t.Context(), host.Release{ID: "db", Gen: 7}); err != nil || !a.Running {
		t.Errorf("release: %+v, %v", a, err)
	}
	r.eventually("it to end", func() bool { return !alive(pid) })
	r.eventually("it to be forgotten", func() bool { return len(r.view().OutOfGate) == 0 })
	if _, running, _ := r.Holds(t.Context(), host.Ref{ID: "db", Epoch: 7}); running {
		t.Error("its slot is held for ever")
	}
	r.reserve("db", 9)
	r.release("db", 9)
}

// stranger is a sandbox that a rule finds and no ticket stands for.
type stranger struct {
	pid      int
	where    string
	stateful bool
	ended    atomic.Bool
}

func (s *stranger) found() agent.Found {
	return agent.Found{
		Stray:    host.Stray{ID: filepath.Base(s.where), Where: s.where, PIDs: []int{s.pid}, Resident: 100 * gate.MiB},
		Stateful: s.stateful, Started: host.Instant(1 << 62),
		End: func(context.Context, time.Duration) error { s.ended.Store(true); return nil },
	}
}

// What runs out of gate is listed and charged once its booter has had the time to track it, told
// once, and stopped only where the operator says so, never if it keeps state, may have had a
// ticket, or the host lets in what has none.
func TestOutOfGate(t *testing.T) {
	plain, base, old := &stranger{pid: 901, where: "/m/plain"}, &stranger{pid: 902, where: "/m/base", stateful: true}, &stranger{pid: 903, where: "/m/old"}
	var broken atomic.Bool
	observed := func(func(string, []int) bool) ([]agent.Found, error) {
		if broken.Load() {
			return nil, errors.New("no such luck")
		}
		ancient := old.found()
		ancient.Started = 1
		return []agent.Found{plain.found(), base.found(), ancient}, nil
	}
	for _, c := range []struct {
		name  string
		what  agent.OutOfGate
		order host.Event
		stops bool
	}{
		{"alarm", agent.AlarmOutOfGate, nil, false},
		{"stop", agent.StopOutOfGate, nil, true},
		{"stop in shadow", agent.StopOutOfGate, host.SetEnforcement{To: host.Shadow}, false},
		{"stop under a bypass", agent.StopOutOfGate, host.SetBypass{For: time.Minute, By: "uid-0", Reason: "test"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range []*stranger{plain, base, old} {
				s.ended.Store(false)
			}
			broken.Store(false)
			r := startRig(t, func(cfg *agent.Config) {
				cfg.Observed, cfg.OutOfGate, cfg.SampleSandboxes = observed, c.what, time.Hour
			})
			if c.order != nil {
				if _, err := r.Do(t.Context(), c.order); err != nil {
					t.Fatal(err)
				}
			}
			look := r.Outside()
			now := time.Now()
			look(t.Context(), now)
			if v := r.view(); v.Outside != 0 {
				t.Errorf("a booter had no time: %+v", v.OutOfGate)
			}
			for range 3 {
				now = now.Add(6 * time.Second)
				look(t.Context(), now)
			}
			if v := r.view(); v.Outside != 300*gate.MiB || len(v.OutOfGate) != 3 {
				t.Errorf("%+v hold %v", v.OutOfGate, v.Outside)
			}
			if n := strings.Count(r.log.String(), "runs out of gate: no ledger"); n != 3 {
				t.Errorf("told %d times of 3", n)
			}
			if plain.ended.Load() {
				t.Error("stopped before a ticket could have been redeemed")
			}
			broken.Store(true) // what cannot be looked for stands
			look(t.Context(), now.Add(30*time.Second))
			if v := r.view(); v.Outside != 300*gate.MiB {
				t.Errorf("forgotten: %v", v.Outside)
			}
			broken.Store(false)
			look(t.Context(), now.Add(2*time.Minute))
			if c.stops {
				r.eventually("it to be stopped", plain.ended.Load)
			}
			if base.ended.Load() || old.ended.Load() || plain.ended.Load() != c.stops {
				t.Errorf("stopped: %v, stateful %v, older than the memory %v", plain.ended.Load(), base.ended.Load(), old.ended.Load())
			}
		})
	}
}

// One that is tracked is in the gate from then on.
func TestTrackedIsNotOutOfGate(t *testing.T) {
	s := &stranger{where: "/m/mine"}
	r := startRig(t, func(cfg *agent.Config) {
		cfg.SampleSandboxes = time.Hour
		cfg.Observed = func(known func(string, []int) bool) ([]agent.Found, error) {
			if known(s.where, []int{s.pid}) {
				return nil, nil
			}
			return []agent.Found{s.found()}, nil
		}
	})
	c := startChild(t, "sleep", "1000")
	s.pid = c.pid()
	look, now := r.Outside(), time.Now()
	look(t.Context(), now)
	start := r.redeem(r.reserve("a", 1))
	if err := start.Track(t.Context(), s.pid); err != nil {
		t.Fatal(err)
	}
	look(t.Context(), now.Add(time.Second)) // the rules are not applied again yet
	look(t.Context(), now.Add(10*time.Second))
	if v := r.view(); len(v.OutOfGate) != 0 {
		t.Errorf("%+v", v.OutOfGate)
	}
	unix.Kill(s.pid, unix.SIGKILL)
	r.idle()
}
