package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/internal/vmtest"
)

// checks are in the order of what they disturb.
func checks() []check {
	return []check{
		{"limits", limits},
		{"clean-cache", cleanCache},
		{"hugepages", hugepages},
		{"out-of-gate", outOfGate},
		{"own-limit", ownLimit},
		{"killed-agent", killed},
		{"swap", swap},
		{"thrashing-alone", thrashingAlone},
		{"valve", valve},
		{"lost-bet", lostBet},
		{"limit-above", limitAbove},
		{"host-out-of-memory", hostOutOfMemory},
	}
}

// checkHost runs the checks whose names match.
func checkHost(chosen *regexp.Regexp) {
	m := &machine{cgroup: service}
	err := prepareHost()
	if err == nil {
		err = m.start()
	}
	m.checkAll(err, slices.DeleteFunc(checks(), func(k check) bool { return !chosen.MatchString(k.name) }))
}

// checkBare is for a kernel without pressure figures and without the memory controller.
func checkBare() {
	m := &machine{}
	err := os.MkdirAll(stateDir, 0o755)
	if err == nil {
		err = m.start()
	}
	m.checkAll(err, []check{{"bare", bare}})
}

// checkAll runs checks of an agent that was started, or was not.
func (m *machine) checkAll(started error, checks []check) {
	if started != nil {
		report(vmtest.Event{Kind: vmtest.Fault, Text: fmt.Sprintf("%v\n%s", started, m.agentLog())})
		return
	}
	for _, k := range checks {
		m.do(k)
	}
	m.kill()
	report(vmtest.Event{Kind: vmtest.Over})
}

// Where the kernel tells of no pressure and has no limits but the machine's, the agent goes by
// that one, measures a sandbox by its processes, says what it lacks, and has an open valve.
func bare(c *run) {
	if _, err := os.ReadFile("/proc/pressure/memory"); err == nil {
		c.fatalf("this kernel has pressure figures: nothing is proven")
	}
	c.isOpen()
	h := c.show()
	if len(h.Limits) != 1 || h.Limits[0].Name != "machine" || h.AdmittableMB < 100 {
		c.errorf("limits %+v, %d MiB may be promised", h.Limits, h.AdmittableMB)
	}
	s := c.boots(ask(64), "touch", "24")
	c.isReady(s)
	c.becomes("the sandbox to be measured", func() string {
		if b := holds(c.show(), s.id); b == nil || b.ResidentMB < 24 || b.ResidentMB > 48 {
			return fmt.Sprintf("%+v", b)
		}
		return ""
	})
	if !strings.Contains(c.agentLog(), "memory controller") {
		c.errorf("it does not say what it lacks")
	}
}

// T14: every cgroup above the sandboxes and above the agent bounds what is promised, however
// large the machine is.
func limits(c *run) {
	c.isOpen()
	h := c.show()
	for name, mb := range map[string]int64{
		"cgroup:" + fleet: fleetMB, "cgroup:" + service: serviceMB, "cgroup:" + sandboxes: sandboxesMB,
	} {
		if l, ok := limitOf(h, name); !ok || l.SizeMB != mb {
			c.errorf("the limit %s is %+v, want %d MiB", name, l, mb)
		}
	}
	machine, _ := limitOf(h, "machine")
	if machine.SizeMB <= fleetMB || len(h.Limits) != 4 {
		c.errorf("limits %+v", h.Limits)
	}
	if most := int64(sandboxesMB - headroomMB); h.AdmittableMB > most || h.AdmittableMB < most/2 {
		c.errorf("%d MiB may be promised, want at most %d", h.AdmittableMB, most)
	}
	if said := c.agentLog(); !strings.Contains(said, "by the limit of cgroup:"+sandboxes) {
		c.errorf("at its start it does not warn that the machine has more")
	}
	c.logf("%d MiB may be promised, bound by %s; %+v", h.AdmittableMB, h.BindingLimit, h.Limits)
	var kept []string
	for range 4 { // 4 × 100 MiB: two fit under the narrowest limit, and the machine has room for all
		r, err := c.seam.Reserve(context.Background(), boot.Ask{MemoryMB: 100, Stateful: true})
		if err == nil {
			kept = append(kept, r.Ticket)
		} else if !errors.Is(err, api.NoCapacity) {
			c.errorf("refused by %v", err)
		}
	}
	if len(kept) != 2 {
		c.errorf("%d of 4 guests of 100 MiB are admitted", len(kept))
	}
	for _, t := range kept {
		c.must(c.seam.Release(context.Background(), t))
	}
}

// T96: what lies in the page cache, clean, is no use of memory: neither of the host nor of
// the sandbox that had it read.
func cleanCache(c *run) {
	const cached = 120
	before := c.show()
	s := c.boots(ask(200), "read", dataDisk, strconv.Itoa(cached))
	c.isReady(s)
	if got := c.number(groupOf(s.id) + "/memory.current"); got < cached*3/4 {
		c.fatalf("only %d MiB are charged to the sandbox's cgroup: nothing is proven", got)
	}
	c.becomes("the cache to be shown", func() string {
		if b := holds(c.show(), s.id); b == nil || b.ResidentMB == 0 || b.FileCacheMB < cached*3/4 {
			return fmt.Sprintf("%+v", b)
		}
		return ""
	})
	after := c.show()
	if b := holds(after, s.id); b.ResidentMB > 32 {
		c.errorf("%d MiB are resident", b.ResidentMB)
	}
	if fell := before.FreeMB - after.FreeMB; fell > 32 {
		c.errorf("free memory fell by %d MiB, from %d to %d", fell, before.FreeMB, after.FreeMB)
	}
	c.logf("%d MiB cached, free %d MiB, before that %d", cached, after.FreeMB, before.FreeMB)
}

// T27: huge pages are taken from a pool of their own, which is set aside beforehand. They are no
// sandbox's resident memory, and of those that somebody else has none is promised.
func hugepages(c *run) {
	const pool, held, others = 16, 8, 4 // pages of 2 MiB
	const file = "/proc/sys/vm/nr_hugepages"
	c.must(write(file, strconv.Itoa(pool)))
	c.cleanup(func() { c.must(write(file, "0")) })
	a := ask(64)
	a.Dims = map[string]int64{"hugepages": held}
	c.isAdmitted(a)
	s := c.boots(a, "huge", strconv.Itoa(2*held))
	c.isReady(s)
	c.becomes("the sandbox to be measured", func() string {
		if b := holds(c.show(), s.id); b == nil || b.ResidentMB == 0 {
			return fmt.Sprintf("%+v", b)
		}
		return ""
	})
	if b := holds(c.show(), s.id); b.ResidentMB >= held {
		c.errorf("%d MiB are resident: huge pages count in their own dimension", b.ResidentMB)
	}
	c.isAdmitted(a) // the other half of the pool
	end := c.beside("/bystander", 0, "huge", strconv.Itoa(2*others))
	defer end()
	c.becomes("the dimension to be full", func() string {
		r, err := c.seam.Reserve(context.Background(), a)
		switch {
		case err == nil:
			c.must(c.seam.Release(context.Background(), r.Ticket))
			return "it is admitted"
		case !errors.Is(err, api.NoCapacity) || !strings.Contains(err.Error(), "hugepages"):
			return err.Error()
		}
		return ""
	})
	c.isAdmitted(ask(64)) // which wants none
}

// isAdmitted waits until there is room for an ask, and gives it back.
func (c *run) isAdmitted(a boot.Ask) {
	c.becomes("room", func() string {
		r, err := c.seam.Reserve(context.Background(), a)
		if err != nil {
			return err.Error()
		}
		c.must(c.seam.Release(context.Background(), r.Ticket))
		return ""
	})
}

// What runs where sandboxes do, and has no ticket, is listed and charged what it holds.
func outOfGate(c *run) {
	const held = 24
	before := c.show()
	end := c.beside(sandboxes+"/sb-stranger", 0, "touch", strconv.Itoa(held))
	defer end()
	c.becomes("it to be found", func() string {
		h := c.show()
		if h.OutOfGateCount != 1 || h.OutOfGateMB < held || h.AdmittableMB > before.AdmittableMB-held {
			return fmt.Sprintf("%d out of gate hold %d MiB; %d may be promised, before that %d", h.OutOfGateCount, h.OutOfGateMB, h.AdmittableMB, before.AdmittableMB)
		}
		return ""
	})
	end()
	c.becomes("it to be gone", func() string {
		if h := c.show(); h.OutOfGateCount != 0 {
			return fmt.Sprintf("%d are out of gate", h.OutOfGateCount)
		}
		return ""
	})
}

// A sandbox that meets its own limit is killed by the kernel, and its end says so.
func ownLimit(c *run) {
	s := c.boots(ask(32), "touch", "64")
	c.ends(s)
	if s.err != nil || !s.exit.OOM || s.exit.Signal != "SIGKILL" {
		c.errorf("it ended as %+v, %v", s.exit, s.err)
	}
	if h := c.show(); h.Intake != api.IntakeOpen {
		c.errorf("the intake is %s", h.Intake)
	}
}

// A killed agent comes back to what runs: it charges it, sees its end, and boots nothing twice.
func killed(c *run) {
	c.isOpen()
	r, err := c.seam.Reserve(context.Background(), ask(64))
	c.must(err)
	command := boot.Command{Argv: []string{"/init", "work", "touch", "24"}, Detach: true}
	_, err = c.seam.Run(context.Background(), r.Ticket, command, nil, nil, nil)
	c.must(err)
	before := holds(c.show(), r.ID)
	if before == nil {
		c.fatalf("it is not held")
	}
	c.kill()
	if err := unix.Kill(int(before.PID), 0); err != nil {
		c.errorf("the sandbox went with the agent: %v", err)
	}
	c.must(c.start())
	c.becomes("the sandbox to be measured by the new agent", func() string {
		b := holds(c.show(), r.ID)
		if b == nil || b.PID != before.PID || b.ResidentMB < 24 {
			return fmt.Sprintf("%+v", b)
		}
		return ""
	})
	if !strings.Contains(c.agentLog(), "sandbox re-adopted") {
		c.errorf("it does not say that it re-adopted")
	}
	if _, err := c.seam.Redeem(context.Background(), r.Ticket); !errors.Is(err, api.TicketRejected) {
		c.errorf("a used ticket boots again: %v", err)
	}
	c.must(unix.Kill(int(before.PID), unix.SIGKILL))
	c.becomes("its end to be seen", func() string {
		if h := c.show(); len(h.Sandboxes) > 0 || h.ReservedMB != 0 || h.ResidentMB != 0 {
			return fmt.Sprintf("%+v", h)
		}
		return ""
	})
}

// What was swapped out is still owed: it counts as resident, and against every limit.
func swap(c *run) {
	const limit, held = 64, 112
	c.swapsOn()
	before := c.show()
	s := c.boots(ask(limit), "touch", strconv.Itoa(held))
	c.isReady(s)
	swapped := c.number(groupOf(s.id) + "/memory.swap.current")
	if swapped < held-limit {
		c.fatalf("only %d MiB are swapped out: nothing is proven", swapped)
	}
	c.becomes("what is swapped out to be resident", func() string {
		if b := holds(c.show(), s.id); b == nil || b.ResidentMB < held || b.SwappedMB < held-limit {
			return fmt.Sprintf("%+v", b)
		}
		return ""
	})
	after := c.show()
	if fell := before.FreeMB - after.FreeMB; fell < held-8 {
		c.errorf("free memory fell by %d MiB, of %d that the sandbox holds", fell, held)
	}
	c.logf("%d MiB held, %d of them swapped out; free %d MiB, before that %d", held, swapped, after.FreeMB, before.FreeMB)
}

// T98: one sandbox that thrashes inside its own limit makes the machine's pressure high, and
// the host has room all the same.
func thrashingAlone(c *run) {
	const limit, held = 24, 48
	c.swapsOn()
	s := c.boots(ask(limit), "thrash", strconv.Itoa(held))
	c.isReady(s)
	c.isOpen() // its first growth may have been faster than what is left could bear
	var most float64
	watch := func() string {
		h := c.show()
		most = max(most, h.PSISomeAvg10)
		if h.Intake != api.IntakeOpen || h.AdmittableMB < 64 {
			c.fatalf("intake %s (%s), %d MiB may be promised, at a pressure of %.2f %%", h.Intake, h.IntakeReason, h.AdmittableMB, h.PSISomeAvg10)
		}
		if most < shutMark {
			return fmt.Sprintf("the pressure is %.2f %%", h.PSISomeAvg10)
		}
		return ""
	}
	c.becomes("pressure", watch)
	for until := time.Now().Add(2 * time.Second); time.Now().Before(until); time.Sleep(lookEach) {
		watch()
	}
	c.isAdmitted(ask(32))
	if said := c.agentLog(); strings.Contains(said, "not wake us") {
		c.errorf("as root, in one second's window, the kernel should")
	}
	c.logf("the pressure rose to %.2f %%, and the valve stayed open", most)
}

const shutMark = 10 // percent; the default at which pressure is high

// Sandboxes that grow together beyond what the host has shut the valve before the kernel kills.
func valve(c *run) {
	kills := c.events(cgroups + sandboxes)["oom_kill"]
	var all []*sandbox
	for range 2 {
		all = append(all, c.boots(ask(150), "creep", "112", "25"))
	}
	c.becomes("the valve to shut", func() string {
		h := c.show()
		if h.Intake == api.IntakePressure {
			c.logf("shut at %d MiB free: %s", h.FreeMB, h.IntakeReason)
			return ""
		}
		return fmt.Sprintf("intake %s, %d MiB free, %d resident", h.Intake, h.FreeMB, h.ResidentMB)
	})
	if now := c.events(cgroups + sandboxes)["oom_kill"]; now != kills {
		c.errorf("the kernel killed %d before the valve was shut", now-kills)
	}
	if _, err := c.seam.Reserve(context.Background(), ask(16)); err == nil {
		c.errorf("a reserve was taken with the valve shut")
	}
	for _, s := range all {
		_ = c.seam.Release(context.Background(), s.ticket)
		c.ends(s)
	}
	c.isOpen()
}

// With reclaim on, what grows beyond what there is has to go before the kernel kills, and what
// keeps state stays, though it holds most.
func lostBet(c *run) {
	c.restart("PLIMSOLL_HOST_RECLAIM=on")
	c.cleanup(func() { c.restart() })
	kills := c.events(cgroups + sandboxes)["oom_kill"]
	state := c.boots(boot.Ask{MemoryMB: 90, Class: "state", Stateful: true}, "touch", "80")
	c.isReady(state)
	var all []*sandbox
	for range 2 {
		all = append(all, c.boots(ask(150), "creep", "140", "50"))
	}
	var deed api.Eviction
	c.becomes("the bet to be paid", func() string {
		h := c.show()
		for _, e := range h.Evictions {
			if e.By == "killed" {
				deed = e
				return ""
			}
		}
		return fmt.Sprintf("intake %s, %d MiB free, %d resident, %+v", h.Intake, h.FreeMB, h.ResidentMB, h.Evictions)
	})
	c.logf("%+v", deed)
	var gone []*sandbox
	for _, s := range all {
		if deed.ID == s.id {
			c.ends(s)
			gone = append(gone, s)
		}
	}
	if len(gone) != 1 || gone[0].exit.Signal != "SIGKILL" || gone[0].exit.OOM {
		c.errorf("had to go: %+v", gone)
	}
	if now := c.events(cgroups + sandboxes)["oom_kill"]; now != kills {
		c.errorf("the kernel killed %d", now-kills)
	}
	if holds(c.show(), state.id) == nil {
		c.errorf("the one that keeps state is gone")
	}
	for _, s := range append(all, state) {
		_ = c.seam.Release(context.Background(), s.ticket)
		c.ends(s)
	}
}

// restart kills the agent and starts it under other settings.
func (c *run) restart(reclaim ...string) {
	c.kill()
	c.reclaim = reclaim
	c.must(c.start())
}

// growsAnew proves that the host knows that the kernel has killed for want of its memory: it is
// shut, and then promises step by step.
func (c *run) growsAnew() {
	c.becomes("the host to grow anew", func() string {
		if h := c.show(); h.Ramp == nil || h.Intake != api.IntakePressure || h.Ramp.LeftMB >= sandboxesMB {
			return fmt.Sprintf("intake %s (%s), %+v", h.Intake, h.IntakeReason, h.Ramp)
		}
		return ""
	})
}

// T102: a sandbox that the kernel kills though it is within its own limit is told apart: here
// the limit of all sandboxes was met, by something beside them.
func limitAbove(c *run) {
	s := c.boots(ask(64), "touch", "16")
	c.isReady(s)
	bystander := c.beside(sandboxes+"/bystander", -999, "touch", "400")
	defer bystander()
	c.ends(s)
	if s.err != nil || s.exit.OOM || s.exit.Signal != "SIGKILL" {
		c.errorf("it ended as %+v, %v; it was within its own limit", s.exit, s.err)
	}
	c.growsAnew()
}

// The same where the machine itself has no memory left.
func hostOutOfMemory(c *run) {
	s := c.boots(ask(64), "touch", "16")
	c.isReady(s)
	bystander := c.beside("/bystander", -999, "creep", "2000", "1")
	defer bystander()
	c.ends(s)
	if s.err != nil || s.exit.OOM || s.exit.Signal != "SIGKILL" {
		c.errorf("it ended as %+v, %v; it was within its own limit", s.exit, s.err)
	}
	if !strings.Contains(kernelLog(), "global_oom") {
		c.errorf("the machine had memory left: nothing is proven")
	}
	c.growsAnew()
}
