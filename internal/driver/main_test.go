package driver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// The test binary is also the held helper, and an agent for tests to kill.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case driver.ExecCommand:
			os.Exit(driver.ExecMain(os.Args[2:]))
		case "test-agent":
			agentMain(os.Args[2])
		}
	}
	goleak.VerifyTestMain(m)
}

// recorded is what an agent would have on disk of a sandbox.
type recorded struct {
	PID       int
	StartTime uint64
	Cgroup    string
}

// agentOrder is what the agent for tests is to do before it waits to be killed.
type agentOrder struct {
	Root, Parent, Dir string
	Spec              driver.Spec
	Go                bool
}

func agentMain(text string) {
	var o agentOrder
	err := json.Unmarshal([]byte(text), &o)
	var p *driver.Process
	if err == nil {
		p, err = agentPrepare(o)
	}
	if err == nil && o.Go {
		err = p.Go()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(recorded{p.Pid(), p.StartTime(), p.Cgroup()})
	select {}
}

func agentPrepare(o agentOrder) (*driver.Process, error) {
	m, err := hostmem.Discover(o.Root)
	if err != nil {
		return nil, err
	}
	d, err := driver.New(driver.Config{Machine: m, Parent: o.Parent, Dir: o.Dir})
	if err != nil {
		return nil, err
	}
	return d.Prepare(context.Background(), o.Spec)
}

// startAgent starts an agent in a process of its own. The func kills it as nothing else does.
func startAgent(t *testing.T, o agentOrder) (recorded, func()) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "test-agent", string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { cmd.Process.Kill(); cmd.Wait() }
	var r recorded
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		kill()
		t.Fatalf("the agent said nothing: %v", err)
	}
	return r, kill
}

// rig is a driver with what tests look at.
type rig struct {
	*driver.Driver
	machine *hostmem.Machine
	config  driver.Config
	root    string
	tmp     string // where sandboxes of any user may write
}

// withCgroups is a rig on the real machine, or skips.
func withCgroups(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, "/")
	if len(r.Warnings()) > 0 {
		t.Skipf("this machine lets us make no cgroups: %v", r.Warnings())
	}
	return r
}

// withoutCgroups is a rig whose root has the real processes and no cgroups.
func withoutCgroups(t *testing.T) *rig {
	t.Helper()
	root := t.TempDir()
	if err := os.Symlink("/proc", filepath.Join(root, "proc")); err != nil {
		t.Fatal(err)
	}
	return newRig(t, root)
}

// everywhere runs a test on both.
func everywhere(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Run("with cgroups", func(t *testing.T) { test(t, withCgroups(t)) })
	t.Run("without", func(t *testing.T) { test(t, withoutCgroups(t)) })
}

func newRig(t *testing.T, root string) *rig {
	t.Helper()
	m, err := hostmem.Discover(root)
	if err != nil {
		t.Skip(err)
	}
	tmp, err := os.MkdirTemp("", "driver")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	os.Chmod(tmp, 0o777)
	c := driver.Config{
		Machine: m,
		Parent:  fmt.Sprintf("plimsoll-test-%d/%s", os.Getpid(), filepath.Base(tmp)),
		Dir:     filepath.Join(tmp, "logs"),
		Grace:   200 * time.Millisecond,
	}
	r := &rig{machine: m, config: c, root: root, tmp: tmp}
	t.Cleanup(func() { removeParent(t, m, c.Parent) })
	r.Driver = r.restart(t)
	return r
}

// restart is a second agent on the same host.
func (r *rig) restart(t *testing.T) *driver.Driver {
	t.Helper()
	d, err := driver.New(r.config)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// removeParent also checks that the sandboxes left no cgroup behind.
func removeParent(t *testing.T, m *hostmem.Machine, parent string) {
	for _, h := range []hostmem.Hierarchy{m.Memory(), m.Unified()} {
		if !h.Mounted() {
			continue
		}
		if err := unix.Rmdir(h.Dir(parent)); err != nil && err != unix.ENOENT {
			t.Errorf("%s: a sandbox's cgroup was left behind: %v", h.Dir(parent), err)
		}
		unix.Rmdir(h.Dir(filepath.Dir(parent))) // busy while a parallel test uses it
	}
}

// shell is a sandbox that runs a script as ourselves.
func (r *rig) shell(id, script string) driver.Spec {
	return driver.Spec{
		ID: id, Argv: []string{"sh", "-c", script}, Dir: r.tmp,
		Env: []string{"PATH=" + os.Getenv("PATH")},
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}
}

// prepare prepares a sandbox that is gone when the test ends.
func (r *rig) prepare(t *testing.T, s driver.Spec) *driver.Process {
	t.Helper()
	p, err := r.Prepare(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(expired()); p.Wait() })
	return p
}

func (r *rig) run(t *testing.T, s driver.Spec) *driver.Process {
	t.Helper()
	p := r.prepare(t, s)
	if err := p.Go(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (r *rig) stdout(t *testing.T, id string) string {
	t.Helper()
	name, _ := r.Logs(id)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// expired is a context that gives no grace.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// eventually waits for a condition that no one can be asked to signal.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// pidIn waits for a script to write a pid.
func (r *rig) pidIn(t *testing.T, name string) int {
	t.Helper()
	pid := 0
	eventually(t, "a pid in "+name, func() bool {
		text, err := os.ReadFile(filepath.Join(r.tmp, name))
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

// gone says whether a process has ended, reaped or not.
func (r *rig) gone(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err == unix.ESRCH
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

func (r *rig) has(name string) bool {
	_, err := os.Stat(filepath.Join(r.tmp, name))
	return err == nil
}
