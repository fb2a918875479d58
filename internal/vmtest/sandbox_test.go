package vmtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// TestMicroVMSandbox boots a microVM as an orchestrator does, by Redeem → Track → Done at the
// agent's socket. The agent knows it by its process alone, which holds what the guest has
// touched, and not what it was configured with. T26: what the guest gives back stays with the
// process, and so with the charge.
func TestMicroVMSandbox(t *testing.T) {
	const configured, reserve = 1024, 512 // MiB; the default reserve is the larger of a quarter and 512
	a := startAgent(t)
	place, err := a.seam.Reserve(t.Context(), boot.Ask{MemoryMB: configured, Class: "microvm", Key: "vm-1"})
	if err != nil {
		t.Fatal(err)
	}
	start, err := a.seam.Redeem(t.Context(), place.Ticket)
	if err != nil {
		t.Fatal(err)
	}
	defer start.Close()
	c := config(t, start.MemoryMB, "touch")
	c.CodeMB = 16 // as little of the emulator's own as can be: it is measured with its guest
	g := boots(t, c)
	if err := start.Track(t.Context(), g.Pid()); err != nil {
		t.Fatal(err)
	}
	g.answers("up")

	idle := a.holds(place.ID, func(s *api.Sandbox) bool { return s.ResidentMB > 0 })
	if idle.ConfiguredMB != configured || idle.ResidentMB > configured/2 || idle.PID != int64(g.Pid()) {
		t.Errorf("idle it is %+v; far less than %d MiB should be resident", idle, configured)
	}
	if idle.ChargeMB != max(reserve, idle.ResidentMB) {
		t.Errorf("idle it is charged %d MiB, resident are %d", idle.ChargeMB, idle.ResidentMB)
	}
	t.Logf("idle: resident %d MiB, charged %d MiB of %d configured", idle.ResidentMB, idle.ChargeMB, configured)
	was := idle.ResidentMB
	for _, mb := range []int64{128, 128, 256} {
		g.does(fmt.Sprintf("touch %d", mb))
		now := a.holds(place.ID, func(s *api.Sandbox) bool { return s.ResidentMB >= was+mb*3/4 })
		if now.ResidentMB > was+mb+96 {
			t.Errorf("%d MiB more were touched, and resident went from %d to %d MiB", mb, was, now.ResidentMB)
		}
		if now.ChargeMB != max(reserve, now.ResidentMB) {
			t.Errorf("it is charged %d MiB, resident are %d", now.ChargeMB, now.ResidentMB)
		}
		t.Logf("touched %d MiB more: resident %d MiB, charged %d MiB of %d configured", mb, now.ResidentMB, now.ChargeMB, configured)
		was = now.ResidentMB
	}
	if was <= reserve {
		t.Errorf("resident are %d MiB: the charge was never more than the reserve", was)
	}
	g.does("free")
	a.measuresAnew()
	if now := a.holds(place.ID, func(*api.Sandbox) bool { return true }); now.ResidentMB < was-64 || now.ChargeMB < was-64 {
		t.Errorf("the guest gave back its memory, and the host's charge is %d MiB of %d: does it hold less?", now.ChargeMB, was)
	}
	if err := g.Say("off"); err != nil {
		t.Fatal(err)
	}
	g.off()
	if err := start.Done(t.Context(), "the guest turned itself off"); err != nil {
		t.Errorf("done: %v", err)
	}
	if h := a.show(); len(h.Sandboxes) != 0 || h.ResidentMB != 0 || h.ReservedMB != 0 || h.UnresidentMB != 0 {
		t.Errorf("something is still held: %+v", h)
	}
}

// measuresAnew waits until a sample has begun after now: one has once it shows a sandbox that
// was not there before.
func (a *hostAgent) measuresAnew() {
	a.t.Helper()
	place, err := a.seam.Reserve(a.t.Context(), boot.Ask{MemoryMB: 64})
	if err != nil {
		a.t.Fatal(err)
	}
	work := boot.Command{Argv: []string{built(a.t, "guest"), "work", "touch", "16"}, Detach: true}
	if _, err := a.seam.Run(a.t.Context(), place.Ticket, work, nil, nil, nil); err != nil {
		a.t.Fatal(err)
	}
	a.holds(place.ID, func(s *api.Sandbox) bool { return s.ResidentMB >= 16 })
	if err := a.seam.Release(a.t.Context(), place.Ticket); err != nil {
		a.t.Fatal(err)
	}
	a.becomes("it to end", func() error {
		if h := a.show(); len(h.Sandboxes) != 1 {
			return fmt.Errorf("%d are held", len(h.Sandboxes))
		}
		return nil
	})
}

// answers waits until the guest has done what it was told.
func (g *guest) answers(want string) {
	g.t.Helper()
	if e := g.event(); e.Kind != Ready || e.Text != want {
		g.t.Fatalf("the guest answers %+v, want %q", e, want)
	}
}

func (g *guest) does(order string) {
	g.t.Helper()
	if err := g.Say(order); err != nil {
		g.t.Fatal(err)
	}
	g.answers(order)
}

// hostAgent is `plimsoll agent` on this machine, the gate of one host.
type hostAgent struct {
	t    *testing.T
	seam boot.Client
	said said
}

// said is what a process wrote so far.
type said struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func startAgent(t *testing.T) *hostAgent {
	t.Helper()
	dir, err := os.MkdirTemp("", "vm") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	a := &hostAgent{t: t, seam: boot.Client{Socket: filepath.Join(dir, "agent.sock")}}
	parent := fmt.Sprintf("plimsoll-test-%d/vm", os.Getpid())
	cmd := exec.Command(built(t, "plimsoll"), "agent")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PLIMSOLL_DATA_DIR=" + dir, "PLIMSOLL_HOST_ID=vmhost",
		"PLIMSOLL_HOST_BUDGET=4GiB", "PLIMSOLL_HOST_CGROUP_PARENT=" + parent,
	}
	cmd.Stdout, cmd.Stderr = &a.said, &a.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the agent ended with %v", err)
		}
		if t.Failed() {
			t.Logf("the agent said:\n%s", &a.said)
		}
		removeParent(t, parent)
	})
	a.becomes("the agent to answer", func() error {
		_, err := a.seam.Show(t.Context())
		return err
	})
	return a
}

func (a *hostAgent) show() api.Host {
	a.t.Helper()
	h, err := a.seam.Show(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return h
}

// holds waits until a sandbox is shown as it should be.
func (a *hostAgent) holds(id string, ok func(*api.Sandbox) bool) (seen api.Sandbox) {
	a.t.Helper()
	a.becomes("the sandbox to be measured", func() error {
		h := a.show()
		i := slices.IndexFunc(h.Sandboxes, func(s api.Sandbox) bool { return s.ID == id })
		if i < 0 {
			return fmt.Errorf("%s is not held", id)
		}
		if seen = h.Sandboxes[i]; !ok(&seen) {
			return fmt.Errorf("it is %+v", seen)
		}
		return nil
	})
	return seen
}

func (a *hostAgent) becomes(what string, look func() error) {
	a.t.Helper()
	deadline := time.Now().Add(silentFor)
	for {
		err := look()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("waited in vain: %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// removeParent removes the cgroup of the agent's sandboxes, which it leaves for its next start.
func removeParent(t *testing.T, parent string) {
	t.Helper()
	m, err := hostmem.Discover("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []hostmem.Hierarchy{m.Memory(), m.Unified()} {
		if !h.Mounted() {
			continue
		}
		for _, dir := range []string{h.Dir(parent), filepath.Dir(h.Dir(parent))} {
			if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
				t.Errorf("%s is still there: %v", dir, err)
			}
		}
	}
}
