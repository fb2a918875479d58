package fleettest

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// replica is one `plimsoll server`, or `plimsoll up`, with a data directory and an address of
// its own.
type replica struct {
	t    *testing.T
	verb string
	dir  string
	port int
	env  []string
	log  string // level; empty: the default

	through []string // the command that becomes the process, if another is to prepare it

	pid    atomic.Int64 // of the process that was started last
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has
	stderr *output
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

// newReplica is not started yet. An empty store is the embedded one.
func newReplica(t *testing.T, verb, store string) *replica {
	t.Helper()
	return newReplicaOf(t, verb, store, document())
}

// newReplicaOf is one with a fleet of its own.
func newReplicaOf(t *testing.T, verb, store, fleet string) *replica {
	t.Helper()
	r := &replica{t: t, verb: verb, dir: t.TempDir(), port: freePort(t), stderr: new(output)}
	for name, text := range map[string]string{"keys.json": keysFile, "plimsoll.yaml": fleet} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.env = []string{
		"HOME=" + r.dir, "PATH=" + os.Getenv("PATH"), "PLIMSOLL_LISTEN=" + r.address(),
		"PLIMSOLL_KEYS=" + filepath.Join(r.dir, "keys.json"), "PLIMSOLL_DATA_DIR=" + filepath.Join(r.dir, "data"),
	}
	if store != "" {
		r.env = append(r.env, "PLIMSOLL_STORE="+store)
	}
	t.Cleanup(func() {
		r.kill()
		if said := r.stderr.String(); strings.Contains(said, "goroutine ") || strings.Contains(said, "panic") {
			t.Errorf("a replica broke down: %s", tail(said))
		} else if t.Failed() {
			t.Logf("the replica at %s said: %s", r.address(), tail(said))
		}
	})
	return r
}

func (r *replica) address() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

func (r *replica) start() {
	r.t.Helper()
	path, err := binary()
	if err != nil {
		r.t.Fatal(err)
	}
	line := append(slices.Clone(r.through), path, r.verb, "--log", cmp.Or(r.log, "info"), "--config", filepath.Join(r.dir, "plimsoll.yaml"))
	r.cmd = exec.Command(line[0], line[1:]...)
	r.cmd.Env, r.cmd.Dir, r.cmd.Stderr = r.env, "/", r.stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd, ended, started := r.cmd, make(chan struct{}), make(chan error)
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for the signal is sent at the end of this thread
		err := cmd.Start()
		if err == nil {
			r.pid.Store(int64(cmd.Process.Pid))
		}
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	r.ended = ended
	if err := <-started; err != nil {
		r.t.Error(err)
		r.cmd = nil
	}
}

// kill ends the process as nothing else does.
func (r *replica) kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
		<-r.ended
		r.cmd = nil
	}
}

// stop has the process stand still. The signal is sent before it is obeyed: each of its
// threads stops when it next gets a turn, which on a busy machine comes late.
func (r *replica) stop() {
	_ = r.cmd.Process.Signal(syscall.SIGSTOP)
	for !standsStill(r.cmd.Process.Pid) {
		time.Sleep(time.Millisecond)
	}
}

// standsStill says whether every thread of a process is stopped, or gone.
func standsStill(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, t := range threads {
		stat, err := os.ReadFile(t)
		if err != nil {
			continue
		}
		_, state, _ := bytes.Cut(stat, []byte(") ")) // 7 (plimsoll) T 1 ...
		if len(state) > 0 && !bytes.ContainsAny(state[:1], "TtZX") {
			return false
		}
	}
	return true
}

func (r *replica) goOn() { _ = r.cmd.Process.Signal(syscall.SIGCONT) }

// ready is the status that a load balancer sees; 0: no answer.
func (r *replica) ready() int {
	resp, err := http.Get("http://" + r.address() + "/readyz")
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func (r *replica) becomesReady() {
	r.t.Helper()
	becomes(r.t, "a replica to be ready", startWithin, func() string {
		if status := r.ready(); status != http.StatusOK {
			return fmt.Sprint("it says ", status)
		}
		return ""
	})
	if r.t.Failed() {
		r.t.FailNow()
	}
}
