package agent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
)

func special() gate.Ask {
	a := ask()
	a.Dims = []gate.Dim{{Name: "special", N: 1}}
	return a
}

func (r *rig) stand(id string, a gate.Ask) host.Answer {
	r.t.Helper()
	v := r.view().Verdict
	answer, err := r.Do(r.t.Context(), host.Stand{ID: id, Ask: a, Until: v.At + host.StandFor, Incarnation: v.Incarnation})
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

func (r *rig) denied(id string, a gate.Ask, want host.Denial, detail string) {
	r.t.Helper()
	answer, err := r.tryReserve(id, 1, time.Minute, a)
	if err != nil || answer.Denial != want || answer.Detail != detail {
		r.t.Errorf("reserve %s: %v %v %v, want %v %v", id, answer.Denial, answer.Detail, err, want, detail)
	}
}

// T82: any older waiter blocked everyone. 10 slots, 4 in use, one of them with the special
// thing that the waiter needs: 1 is set aside for it, and 5 are usable now. When the special
// one's process ends, the waiter has its place, and nobody came before it.
func TestOneWaiterBlocksNobodyElse(t *testing.T) {
	r := startRig(t, func(c *agent.Config) {
		c.Host.Dims = []gate.Dim{{Name: host.SandboxDim, N: 10}, {Name: "special", N: 1}}
	})
	first := startChild(t, "sleep", "1000")
	s := r.redeem(r.reserveFor("special", 1, time.Minute, special()))
	if err := s.Track(t.Context(), first.pid()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		r.detached(fmt.Sprint("runs", i), 1, "exec sleep 1000")
	}
	r.denied("waiter", special(), host.LacksDim, "special")
	if a := r.stand("waiter", special()); a.Denial != "" {
		t.Fatal(a.Denial)
	}
	for i := range 5 {
		r.reserve(fmt.Sprint("small", i), 1)
	}
	r.denied("sixth", ask(), host.LacksDim, host.SandboxDim)
	if a := r.stand("second", special()); a.Denial != host.StandTaken {
		t.Errorf("a second waiter: %v", a.Denial)
	}
	first.Process.Kill()
	r.eventually("the special one to end", func() bool { _, there := r.sandbox("special"); return !there })
	if a := r.stand("waiter", special()); a.Denial != "" {
		t.Errorf("said again: %v", a.Denial)
	}
	r.denied("other", special(), host.LacksDim, "special")
	r.reserveFor("waiter", 2, time.Minute, special())
	v := r.view()
	if v.Standing.ID != "" || v.Verdict.Standing || v.Reservations != 6 {
		t.Errorf("set aside still for %q; %d reserved", v.Standing.ID, v.Reservations)
	}
	r.reserve("sixth", 2)
}

// What is set aside is told at once, and is over at once when its waiter, or the agent, goes.
func TestWhatIsSetAsideIsTold(t *testing.T) {
	r := startRig(t)
	feed := r.Subscribe()
	before := r.view().Verdict.Admittable
	large := gate.Ask{Memory: gate.GiB, Stateful: true}
	r.stand("waiter", large)
	n := r.until(feed, func(n host.News) bool { return n.Verdict.Standing })
	if n.Verdict.Admittable > before-large.Memory {
		t.Errorf("%s admittable, %s before", n.Verdict.Admittable, before)
	}
	r.restart()
	if v := r.view(); v.Standing.ID != "" || v.Verdict.Standing {
		t.Errorf("set aside for %q after a restart", v.Standing.ID)
	}
	feed = r.Subscribe()
	r.stand("other", large)
	r.until(feed, func(n host.News) bool { return n.Verdict.Standing })
	if a, err := r.Do(t.Context(), host.Unstand{ID: "other"}); err != nil || a.Denial != "" {
		t.Errorf("%v %v", a.Denial, err)
	}
	for n.Verdict.Standing {
		n = r.until(feed, func(n host.News) bool { return n.Verdict.Sequence > 0 })
	}
}
