package up_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/internal/discover"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// binary is the program as it is shipped, built once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "plimsoll-bin")
	if err != nil {
		return "", err
	}
	os.Chmod(dir, 0o755) // other users run it too
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "plimsoll"), "github.com/plimsoll-project/plimsoll/cmd/plimsoll")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return filepath.Join(dir, "plimsoll"), nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}

// site is one machine's `plimsoll up`: its data directory, and the process while it runs.
type site struct {
	t      *testing.T
	verb   string // "server" for a replica alone
	dir    string
	data   string
	env    []string
	args   []string
	uid    uint32
	parent string // cgroup of its sandboxes
	port   int

	cmd    *exec.Cmd
	stdout *output
	stderr *output
	ended  chan struct{} // closed when the process has
}

// output is what a process wrote so far.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// newSite has a budget of 1 GiB on this machine, and a port of its own.
func newSite(t *testing.T) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "up")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o777)
	s := &site{t: t, verb: "up", dir: dir, data: filepath.Join(dir, "data"), port: freePort(t)}
	s.parent = fmt.Sprintf("plimsoll-test-%d/%s", os.Getpid(), filepath.Base(dir))
	s.set("PLIMSOLL_HOST_ID", "h1")
	s.set("PLIMSOLL_HOST_BUDGET", "1GiB")
	s.set("PLIMSOLL_HOST_STOP_GRACE", "1s")
	s.set("PLIMSOLL_HOST_CGROUP_PARENT", s.parent)
	s.set("PLIMSOLL_LISTEN", fmt.Sprintf("127.0.0.1:%d", s.port))
	s.set("PLIMSOLL_DATA_DIR", s.data)
	t.Cleanup(func() {
		s.kill()
		if t.Failed() && s.cmd != nil {
			t.Logf("stdout:\n%s\nstderr:\n%s", s.stdout, tail(s.stderr.String()))
		}
		s.removeParent()
	})
	return s
}

func tail(s string) string { return s[max(len(s)-20_000, 0):] }

// set sets an environment variable of the process.
func (s *site) set(name, value string) { s.env = append(s.env, name+"="+value) }

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (s *site) hierarchies() (all []hostmem.Hierarchy) {
	s.t.Helper()
	m, err := hostmem.Discover("/")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range []hostmem.Hierarchy{m.Memory(), m.Unified()} {
		if h.Mounted() {
			all = append(all, h)
		}
	}
	return all
}

// removeParent also checks that the sandboxes left no cgroup behind, and ends what a test
// that failed did not.
func (s *site) removeParent() {
	for _, h := range s.hierarchies() {
		left, _ := filepath.Glob(filepath.Join(h.Dir(s.parent), "*", "cgroup.procs"))
		for _, procs := range left {
			text, _ := os.ReadFile(procs)
			for _, word := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
					unix.Kill(pid, unix.SIGKILL)
				}
			}
			s.eventually("a left cgroup to go", func() bool {
				err := unix.Rmdir(filepath.Dir(procs))
				return err == nil || err == unix.ENOENT
			})
			s.t.Errorf("%s: a sandbox was left behind", filepath.Dir(procs))
		}
		if err := unix.Rmdir(h.Dir(s.parent)); err != nil && err != unix.ENOENT {
			s.t.Errorf("%s is still there: %v", h.Dir(s.parent), err)
		}
		unix.Rmdir(h.Dir(filepath.Dir(s.parent)))
	}
}

// begin starts the process and does not wait for anything.
func (s *site) begin() {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	s.stdout, s.stderr, s.ended = new(output), new(output), make(chan struct{})
	s.cmd = exec.Command(path, append([]string{s.verb}, s.args...)...)
	s.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}, s.env...)
	s.cmd.Dir = "/"
	s.cmd.Stdout, s.cmd.Stderr = s.stdout, s.stderr
	if s.uid != 0 {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.uid, Gid: s.uid}}
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, ended := s.cmd, s.ended
	go func() { defer close(ended); cmd.Wait() }()
}

// up starts the process and waits until it says that it is.
func (s *site) up() {
	s.t.Helper()
	s.begin()
	s.eventually("it to be up", func() bool {
		select {
		case <-s.ended:
			s.t.Fatalf("it ended: %s", s.stderr)
		default:
		}
		return strings.Contains(s.stdout.String(), "Try, in another terminal")
	})
}

// kill ends the process as nothing else does.
func (s *site) kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.cmd.Process.Kill()
		<-s.ended
	}
}

// stop ends the process by the polite signal, and returns its exit status.
func (s *site) stop() int {
	s.t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		s.t.Error("it does not end by TERM")
		s.kill()
	}
	return s.cmd.ProcessState.ExitCode()
}

// fails starts the process, which must end with these words.
func (s *site) fails(words ...string) string {
	s.t.Helper()
	s.begin()
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		s.t.Errorf("it is up, and should have said %q", words)
		s.kill()
		return ""
	}
	said := s.stderr.String()
	for _, w := range words {
		if !strings.Contains(said, w) {
			s.t.Errorf("it says %q, want %q", said, w)
		}
	}
	if s.cmd.ProcessState.ExitCode() == 0 || strings.Contains(said, "goroutine ") {
		s.t.Errorf("exit status %d: %s", s.cmd.ProcessState.ExitCode(), said)
	}
	return said
}

func (s *site) eventually(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (s *site) note() discover.Note {
	s.t.Helper()
	n, err := discover.Read(s.data)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *site) client() *client.Client {
	s.t.Helper()
	token, err := os.ReadFile(s.data + "/token")
	if err != nil {
		s.t.Fatal(err)
	}
	// Connections of its own: one that was opened to a killed process is no other test's.
	c, err := client.New(fmt.Sprintf("http://127.0.0.1:%d", s.port), strings.TrimSpace(string(token)),
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *site) boot() boot.Client { return boot.Client{Socket: filepath.Join(s.data, "agent.sock")} }

// write puts a configuration file in place and has it used.
func (s *site) write(text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, "plimsoll.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	s.args = []string{"--config", path}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
