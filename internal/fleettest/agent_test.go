package fleettest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// hostAgent is one `plimsoll agent` in a process of its own, with a ledger, a data directory
// and a socket of its own; its sandboxes are processes of this machine.
type hostAgent struct {
	replica // its process
	id      string
	parent  string // cgroup of its sandboxes
}

// room is what each host has for sandboxes.
type room struct {
	budgetMB, headroomMB int64
	machineMB            int64 // what its kernel seems to have; zero: what it has
}

func (r room) mb() int64 { return r.budgetMB - r.headroomMB }

// newAgent is registered with a replica that runs, and not started yet. Replicas reach it at
// an address, which may be a proxy's.
func newAgent(t *testing.T, id string, size room, replicas []*replica, listen, advertise string) *hostAgent {
	t.Helper()
	a := &hostAgent{id: id, parent: fmt.Sprintf("plimsoll-fleet-%d/%s-%s", os.Getpid(), filepath.Base(t.TempDir()), id)}
	a.t, a.verb, a.dir, a.stderr = t, "agent", shortDir(t), new(output)
	file := filepath.Join(a.dir, "join_token")
	for path, text := range map[string]string{file: joinToken(t, id, replicas[0]), filepath.Join(a.dir, "plimsoll.yaml"): "host: {}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for _, r := range replicas {
		all = append(all, "http://"+r.address())
	}
	a.env = []string{
		"HOME=" + a.dir, "PATH=" + os.Getenv("PATH"), "PLIMSOLL_DATA_DIR=" + filepath.Join(a.dir, "data"),
		"PLIMSOLL_AGENT_JOIN_TOKEN_FILE=" + file, "PLIMSOLL_AGENT_REPLICAS=" + strings.Join(all, ","),
		"PLIMSOLL_AGENT_LISTEN=" + listen, "PLIMSOLL_AGENT_ADVERTISE=" + advertise,
		"PLIMSOLL_HOST_ID=" + id, "PLIMSOLL_HOST_CGROUP_PARENT=" + a.parent, "PLIMSOLL_HOST_STOP_GRACE=1s",
		fmt.Sprintf("PLIMSOLL_HOST_BUDGET=%dMiB", size.budgetMB), fmt.Sprintf("PLIMSOLL_HOST_HEADROOM=%dMiB", size.headroomMB),
		"PLIMSOLL_HOST_MAX_WAITING_STARTS=100000", // memory alone is to bind
	}
	if size.machineMB > 0 {
		a.pretends(size.machineMB)
	}
	t.Cleanup(func() {
		a.kill()
		a.endSandboxes()
		said := a.stderr.String()
		if strings.Contains(said, "goroutine ") || strings.Contains(said, "panic:") {
			t.Errorf("the agent of %s broke down: %s", id, tail(said))
		} else if t.Failed() {
			t.Logf("the agent of %s said: %s", id, tail(said))
		}
	})
	return a
}

// pretends has the agent read another /proc/meminfo than the kernel's, in a mount namespace of
// its own: nothing that is only promised needs the memory to be there.
func (a *hostAgent) pretends(machineMB int64) {
	a.t.Helper()
	path := filepath.Join(a.dir, "meminfo")
	text := fmt.Sprintf("MemTotal: %[1]d kB\nMemFree: %[1]d kB\nMemAvailable: %[1]d kB\nBuffers: 0 kB\nCached: 0 kB\nSwapCached: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n", machineMB<<10)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	a.through = []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /proc/meminfo && exec "$@"`, path}
}

// joinToken is one for a host, of a replica that may still start.
func joinToken(t *testing.T, id string, r *replica) (token string) {
	t.Helper()
	becomes(t, "a join token", startWithin, func() string {
		c, err := localClientOf(r)
		if err != nil {
			return err.Error()
		}
		made, err := c.CreateJoinToken(within(t, hung), id, 0)
		if err != nil {
			return err.Error()
		}
		token = made.JoinToken
		return ""
	})
	if token == "" {
		t.FailNow()
	}
	return token
}

// shortDir is a directory whose sockets have paths that a kernel takes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// localClient is whoever can read a replica's data directory.
func localClient(t *testing.T, r *replica) *client.Client {
	t.Helper()
	c, err := localClientOf(r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func localClientOf(r *replica) (*client.Client, error) {
	token, err := os.ReadFile(filepath.Join(r.dir, "data", "token"))
	if err != nil {
		return nil, err
	}
	return client.New("http://"+r.address(), strings.TrimSpace(string(token)))
}

func (a *hostAgent) seam() boot.Client {
	return boot.Client{Socket: filepath.Join(a.dir, "data", "agent.sock")}
}

// shows is the host's own word, at its own socket.
func (a *hostAgent) shows() (api.Host, error) {
	h, err := a.seam().Show(within(a.t, 5*time.Second))
	if err == nil {
		err = checkBooks(&h)
	}
	return h, err
}

// endSandboxes kills what a test left in the host's cgroups, and removes them.
func (a *hostAgent) endSandboxes() {
	m, err := hostmem.Discover("/")
	if err != nil {
		a.t.Error(err)
		return
	}
	for _, h := range []hostmem.Hierarchy{m.Memory(), m.Unified()} {
		if !h.Mounted() {
			continue
		}
		all, _ := filepath.Glob(filepath.Join(h.Dir(a.parent), "*", "cgroup.procs"))
		for _, procs := range all {
			text, _ := os.ReadFile(procs)
			for _, word := range strings.Fields(string(text)) {
				var pid int
				if n, _ := fmt.Sscan(word, &pid); n == 1 && pid > 1 {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
			becomes(a.t, "a cgroup to go", hung, func() string {
				if err := unix.Rmdir(filepath.Dir(procs)); err != nil && err != unix.ENOENT {
					return err.Error()
				}
				return ""
			})
		}
		_ = unix.Rmdir(h.Dir(a.parent))
		_ = unix.Rmdir(filepath.Dir(h.Dir(a.parent)))
	}
}

// booksErr says that a host is past its line, by its own books.
type booksErr struct{ text string }

func (e booksErr) Error() string { return e.text }

// checkBooks holds a host's arithmetic against what must be of it: what it promised, what its
// sandboxes have not touched yet and its headroom fit into what is free, and what it says
// that it can still promise is what that leaves. Figures are rounded, against the host: by
// one MiB for each of five. Limits are sampled more often than sandboxes, so that what one has
// touched in between counts twice, against the host too: here a few MiB, of sandboxes of 64. What
// runs out of gate was never promised anything. After an out-of-memory kill a host says no more
// than its ramp has come to.
func checkBooks(h *api.Host) error {
	left, touched := h.FreeMB-h.HeadroomMB-h.UnresidentMB-h.ReservedMB, 4*h.SandboxCount+h.OutOfGateMB
	offers := left
	if h.Ramp != nil {
		offers = min(offers, h.Ramp.LeftMB)
	}
	switch unmeasured := len(h.Limits) == 0; {
	case unmeasured && h.AdmittableMB != 0:
		return booksErr{fmt.Sprintf("host %s has measured nothing yet, and says %d MiB admittable", h.ID, h.AdmittableMB)}
	case (h.Reservations == 0) != (h.ReservedMB == 0):
		return booksErr{fmt.Sprintf("host %s has %d reservations of %d MiB", h.ID, h.Reservations, h.ReservedMB)}
	case unmeasured: // an agent that starts again knows what it promised before it knows its line
	case left < -5-touched:
		return booksErr{fmt.Sprintf("host %s is %d MiB past its line: free %d, headroom %d, unresident %d, reserved %d",
			h.ID, -left, h.FreeMB, h.HeadroomMB, h.UnresidentMB, h.ReservedMB)}
	case h.Intake == api.IntakeOpen && (h.AdmittableMB > max(offers, 0)+5 || h.AdmittableMB < offers-5):
		return booksErr{fmt.Sprintf("host %s says %d MiB admittable, and its books %d", h.ID, h.AdmittableMB, offers)}
	}
	return nil
}

// TestBooks holds the check itself to what it must see, and what it must not take for wrong.
func TestBooks(t *testing.T) {
	limits := []api.Limit{{Name: "machine"}}
	for _, c := range []struct {
		what  string
		h     api.Host
		wrong bool
	}{
		{"all in order", api.Host{Limits: limits, FreeMB: 1000, HeadroomMB: 100, UnresidentMB: 200, ReservedMB: 300, Reservations: 1, Intake: api.IntakeOpen, AdmittableMB: 400}, false},
		{"past its line", api.Host{Limits: limits, FreeMB: 500, HeadroomMB: 100, UnresidentMB: 200, ReservedMB: 300, Reservations: 1, Intake: api.IntakeOpen}, true},
		{"past its line, and runs some", api.Host{Limits: limits, FreeMB: 336, HeadroomMB: 128, UnresidentMB: 192, ReservedMB: 64, Reservations: 1, SandboxCount: 3, Intake: api.IntakeOpen}, true},
		{"has not sampled what it runs since it started again", api.Host{Limits: limits, FreeMB: 378, HeadroomMB: 128, UnresidentMB: 192, ReservedMB: 64, Reservations: 1, SandboxCount: 3, Intake: api.IntakeOpen}, false},
		{"says more than it has", api.Host{Limits: limits, FreeMB: 500, Intake: api.IntakeOpen, AdmittableMB: 600}, true},
		{"says less than it has", api.Host{Limits: limits, FreeMB: 500, Intake: api.IntakeOpen, AdmittableMB: 400}, true},
		{"ramps up", api.Host{Limits: limits, FreeMB: 500, Intake: api.IntakeOpen, Ramp: &api.Ramp{LeftMB: 60}, AdmittableMB: 60}, false},
		{"ramps up, and has less than that", api.Host{Limits: limits, FreeMB: 50, Intake: api.IntakeOpen, Ramp: &api.Ramp{LeftMB: 60}, AdmittableMB: 50}, false},
		{"says more than its ramp has come to", api.Host{Limits: limits, FreeMB: 500, Intake: api.IntakeOpen, Ramp: &api.Ramp{LeftMB: 60}, AdmittableMB: 500}, true},
		{"says less than its ramp has come to", api.Host{Limits: limits, FreeMB: 500, Intake: api.IntakeOpen, Ramp: &api.Ramp{LeftMB: 60}, AdmittableMB: 10}, true},
		{"ramps up, past its line", api.Host{Limits: limits, FreeMB: 500, HeadroomMB: 100, UnresidentMB: 200, ReservedMB: 300, Reservations: 1, Intake: api.IntakeOpen, Ramp: &api.Ramp{LeftMB: 60}}, true},
		{"reservations of nothing", api.Host{Limits: limits, FreeMB: 500, Intake: api.IntakeOpen, AdmittableMB: 500, Reservations: 1}, true},
		{"has just started again", api.Host{UnresidentMB: 192, ReservedMB: 64, Reservations: 1, Intake: api.IntakeOpen}, false},
		{"has just started again, and counts wrong", api.Host{ReservedMB: 64}, true},
		{"promises what it has not measured", api.Host{Intake: api.IntakeOpen, AdmittableMB: 1}, true},
	} {
		if err := checkBooks(&c.h); (err != nil) != c.wrong {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
