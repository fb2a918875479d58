package driver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A cgroup that nobody here watches is stopped with all in it, politely first; one that holds
// this agent or its sandboxes never is.
func TestEndGroup(t *testing.T) {
	r := withCgroups(t)
	was, kill := startAgent(t, agentOrder{
		Root: r.root, Parent: r.config.Parent, Dir: r.config.Dir, Go: true,
		Spec: r.shell("lost", `trap "touch asked; exit 0" TERM; `+fork+"touch ready; while :; do sleep 0.01; done"),
	})
	kill()
	ready := filepath.Join(r.tmp, "ready")
	eventually(t, "it to be ready", func() bool { _, err := os.Stat(ready); return err == nil })
	deep := r.pidIn(t, "deep")
	live := r.run(t, r.shell("live", "exec sleep 1000"))
	for _, cgroup := range []string{"/", "", r.config.Parent, filepath.Dir(r.config.Parent), live.Cgroup()} {
		if err := r.EndGroup(t.Context(), cgroup, 0); err == nil {
			t.Errorf("%q was stopped", cgroup)
		}
	}
	if r.gone(live.Pid()) || r.gone(was.PID) {
		t.Fatal("a refusal stopped something")
	}
	if err := r.EndGroup(t.Context(), was.Cgroup, 300*time.Millisecond); err != nil || !r.gone(was.PID) || !r.gone(deep) {
		t.Errorf("something is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.tmp, "asked")); err != nil {
		t.Error("it was not asked first")
	}
	if err := r.EndGroup(t.Context(), was.Cgroup, 0); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := r.Remove("lost"); err != nil {
		t.Error(err)
	}
}

// A process tree without a cgroup likewise, and not one whose pid is another's by now.
func TestEndTree(t *testing.T) {
	r := withoutCgroups(t)
	c := exec.Command("sh", "-c", `trap "" TERM; sh -c 'trap "" TERM; while :; do sleep 0.01; done' & while :; do sleep 0.01; done`)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { defer close(over); c.Wait() }()
	t.Cleanup(func() { syscall.Kill(-c.Process.Pid, syscall.SIGKILL); <-over })
	start, err := r.config.Machine.StartTime(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.EndTree(t.Context(), c.Process.Pid, start+1, 0); err != nil || r.gone(c.Process.Pid) {
		t.Errorf("another's was stopped: %v", err)
	}
	if err := r.EndTree(t.Context(), os.Getpid(), 0, 0); err == nil {
		t.Error("we are no sandbox")
	}
	if err := r.EndTree(t.Context(), c.Process.Pid, start, 20*time.Millisecond); err != nil {
		t.Error(err)
	}
	<-over
	table, err := r.config.Machine.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range table.Tree(c.Process.Pid) {
		if left.State != 'Z' {
			t.Errorf("left: %+v", left)
		}
	}
}
