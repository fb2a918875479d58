package driver_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/driver"
)

// fork is a script that leaves a process behind in a session of its own, whose parent is
// gone: nothing but a cgroup still ties it to the sandbox.
const fork = `setsid sh -c 'sh -c "trap \"\" TERM; echo \$\$ > deep; while :; do sleep 1; done" &' &
`

// child is a script that starts a plain child which ignores TERM.
const child = `sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 1; done' &
`

func TestTreeDiesWithItsMainProcess(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		p := r.run(t, r.shell("s", child+"while [ ! -s child ]; do sleep 0.01; done; exit 2"))
		pid := r.pidIn(t, "child")
		if exit := p.Wait(); exit.Code != 2 || exit.Err != nil {
			t.Error(exit)
		}
		if !r.gone(pid) {
			t.Error("the child outlived its sandbox")
		}
	})
}

func TestDoubleForkDiesWithItsSandbox(t *testing.T) {
	r := withCgroups(t)
	p := r.run(t, r.shell("s", fork+"while [ ! -s deep ]; do sleep 0.01; done"))
	pid := r.pidIn(t, "deep")
	if exit := p.Wait(); exit.Code != 0 || exit.Err != nil {
		t.Error(exit)
	}
	if !r.gone(pid) {
		t.Error("the double fork outlived its sandbox")
	}
}

func TestStopKillsTheWholeTree(t *testing.T) {
	r := withCgroups(t)
	p := r.run(t, r.shell("s", `trap "" TERM; `+fork+child+"while :; do sleep 1; done"))
	pids := []int{p.Pid(), r.pidIn(t, "deep"), r.pidIn(t, "child")}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if exit := p.Wait(); exit.Signal != syscall.SIGKILL {
		t.Error(exit)
	}
	for _, pid := range pids {
		if !r.gone(pid) {
			t.Errorf("process %d outlived Stop", pid)
		}
	}
}

func TestStopWithoutCgroupFindsOtherSessions(t *testing.T) {
	// While the parent lives, a session of its own is still a descendant. That parent ends
	// with the sandbox; what Stop saw before is what finds it then.
	r := withoutCgroups(t)
	p := r.run(t, r.shell("s", `setsid sh -c 'trap "" TERM; echo $$ > other; while :; do sleep 1; done' & wait`))
	pid := r.pidIn(t, "other")
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if !r.gone(pid) {
		t.Error("it outlived Stop")
	}
}

func TestStopAsksFirst(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		r.config.Grace = time.Minute
		r.Driver = r.restart(t)
		p := r.run(t, r.shell("s", `trap "echo bye; exit 3" TERM; echo $$ > up; while :; do sleep 0.05; done`))
		r.pidIn(t, "up")
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if exit := p.Wait(); exit.Code != 3 || r.stdout(t, "s") != "bye\n" {
			t.Errorf("%v, said %q", exit, r.stdout(t, "s"))
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Errorf("a second time: %v", err)
		}
	})
}

func TestStopOfAStoppedProcess(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		r.config.Grace = time.Minute
		r.Driver = r.restart(t)
		p := r.run(t, r.shell("s", "exec sleep 1000"))
		syscall.Kill(p.Pid(), syscall.SIGSTOP)
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if exit := p.Wait(); exit.Signal != syscall.SIGTERM {
			t.Error(exit)
		}
	})
}

func TestStopWithoutGrace(t *testing.T) {
	r := withoutCgroups(t)
	r.config.Grace = time.Hour
	r.Driver = r.restart(t)
	p := r.run(t, r.shell("s", `trap "" TERM; echo $$ > up; while :; do sleep 0.05; done`))
	r.pidIn(t, "up")
	if err := p.Stop(expired()); err != nil {
		t.Error(err)
	}
	if exit := p.Wait(); exit.Signal != syscall.SIGKILL {
		t.Error(exit)
	}
}

func TestStopOfAHeldOne(t *testing.T) {
	r := withoutCgroups(t)
	p := r.prepare(t, r.shell("s", "touch ran"))
	if err := p.Stop(t.Context()); err != nil || r.has("ran") {
		t.Errorf("%v, ran: %v", err, r.has("ran"))
	}
}

func TestAdopt(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		was, kill := startAgent(t, agentOrder{
			Root: r.root, Parent: r.config.Parent, Dir: r.config.Dir, Go: true,
			Spec: r.shell("s", child+"while [ ! -e stop ]; do sleep 0.01; done; exit 9"),
		})
		kill()
		child := r.pidIn(t, "child")
		p, err := r.Adopt("s", was.PID, was.StartTime, was.Cgroup)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Adopt("s", was.PID, was.StartTime, was.Cgroup); err == nil {
			t.Error("it was adopted twice")
		}
		if strays, err := r.Sweep(nil); err != nil || len(strays) != 0 {
			t.Errorf("an adopted sandbox is no stray: %+v, %v", strays, err)
		}
		os.WriteFile(filepath.Join(r.tmp, "stop"), nil, 0o644)
		if exit := p.Wait(); !exit.Unknown || exit.Err != nil {
			t.Error(exit)
		}
		if !r.gone(child) {
			t.Error("its child outlived it")
		}
		eventually(t, "its parent by now to reap it, and Adopt to find nothing", func() bool {
			again, err := r.Adopt("s", was.PID, was.StartTime, was.Cgroup)
			if err == nil {
				again.Wait()
			}
			return errors.Is(err, fs.ErrNotExist)
		})
	})
}

func TestAdoptedIsStopped(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		was, kill := startAgent(t, agentOrder{
			Root: r.root, Parent: r.config.Parent, Dir: r.config.Dir, Go: true,
			Spec: r.shell("s", child+"exec sleep 1000"),
		})
		kill()
		child := r.pidIn(t, "child")
		p, err := r.Adopt("s", was.PID, was.StartTime, was.Cgroup)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if !r.gone(was.PID) || !r.gone(child) {
			t.Error("it outlived Stop")
		}
	})
}

func TestReusedPidIsNotAdopted(t *testing.T) {
	r := withoutCgroups(t)
	p := r.run(t, r.shell("s", "exec sleep 1000"))
	other := r.restart(t)
	if _, err := other.Adopt("s", p.Pid(), p.StartTime()-1, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another's process was adopted: %v", err)
	}
	for _, pid := range []int{-1, 0, 1} {
		if _, err := other.Adopt("s", pid, 0, ""); err == nil {
			t.Errorf("pid %d was adopted", pid)
		}
	}
}

func TestAdoptRefusesOthersCgroups(t *testing.T) {
	r := withCgroups(t)
	p := r.run(t, r.shell("s", "exec sleep 1000"))
	for _, cgroup := range []string{"/", "..", r.Parent(), filepath.Dir(p.Cgroup()) + "/sb-other"} {
		if _, err := r.restart(t).Adopt("s", p.Pid(), p.StartTime(), cgroup); err == nil {
			t.Errorf("all of %s would have been killed", cgroup)
		}
	}
}

func TestDetachAndAdoptAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		p := r.run(t, r.shell("s", "exec sleep 1000"))
		p.Detach()
		if exit := p.Wait(); !errors.Is(exit.Err, driver.ErrDetached) {
			t.Error(exit)
		}
		again, err := r.restart(t).Adopt("s", p.Pid(), p.StartTime(), p.Cgroup())
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		// Still our child: its status can be told, and no zombie stays.
		if exit := again.Wait(); exit.Signal != syscall.SIGTERM {
			t.Error(exit)
		}
	})
}

func TestSweepAndRemove(t *testing.T) {
	r := withCgroups(t)
	was, kill := startAgent(t, agentOrder{
		Root: r.root, Parent: r.config.Parent, Dir: r.config.Dir, Go: true,
		Spec: r.shell("lost", fork+"exec sleep 1000"),
	})
	kill()
	deep := r.pidIn(t, "deep")
	live := r.run(t, r.shell("live", "exec sleep 1000"))

	if strays, err := r.Sweep(func(id string) bool { return id == "lost" }); err != nil || len(strays) != 0 {
		t.Errorf("kept: %+v, %v", strays, err)
	}
	strays, err := r.Sweep(func(string) bool { return false })
	if err != nil || len(strays) != 1 || strays[0].ID != "lost" || strays[0].Cgroup != was.Cgroup || len(strays[0].PIDs) < 2 {
		t.Fatalf("got %+v, %v", strays, err)
	}
	if r.gone(was.PID) {
		t.Error("a sweep killed")
	}
	if _, err := r.Prepare(t.Context(), r.shell("lost", "")); err == nil {
		t.Error("a stray's cgroup was taken over")
	}
	if err := r.Remove("lost"); err != nil || !r.gone(was.PID) || !r.gone(deep) {
		t.Errorf("something is left: %v", err)
	}
	if err := r.Remove("live"); err == nil || r.gone(live.Pid()) {
		t.Errorf("a watched sandbox was removed: %v", err)
	}
}
