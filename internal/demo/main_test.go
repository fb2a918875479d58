package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// binary is ours, as people run it. The demo is a process that starts processes of itself, so
// nothing less is tested here.
var binary string

func TestMain(m *testing.M) {
	os.Exit(withBinary(m))
}

func withBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "demo-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "plimsoll")
	build := exec.Command("go", "build", "-o", binary, "github.com/plimsoll-project/plimsoll/cmd/plimsoll")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build plimsoll: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// play is one run of the command.
type play struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    syncBuffer
	tmp    string
	waited chan struct{}
	err    error // set before waited is closed
}

// syncBuffer may be read while a process writes to it.
type syncBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs `plimsoll demo` with a temporary directory of its own.
func start(t *testing.T, args ...string) *play {
	t.Helper()
	tmp, err := os.MkdirTemp("", "demo-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	p := &play{t: t, tmp: tmp, waited: make(chan struct{})}
	p.cmd = exec.Command(binary, append([]string{"demo"}, args...)...)
	p.cmd.Env = append(os.Environ(), "TMPDIR="+p.tmp, "PLIMSOLL_HOST_BUDGET=1TiB", "LC_ALL=C.UTF-8")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.waited)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.waited
		os.RemoveAll(tmp)
	})
	return p
}

// status waits for the end.
func (p *play) status() int {
	p.t.Helper()
	select {
	case <-p.waited:
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("the demo does not end:\n%s", &p.out)
	}
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		p.t.Fatal(p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// until waits for a text on the screen.
func (p *play) until(text string) {
	p.t.Helper()
	soon(p.t, func() string { return text + " on the screen:\n" + p.out.String() }, func() bool { return strings.Contains(p.out.String(), text) })
}

// soon waits for something that must come.
func soon(t *testing.T, what func() string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

var runName = regexp.MustCompile(`plimsoll-demo-[0-9]+`)

// plan is enough of the run's own to look for what it left.
func (p *play) plan() *plan {
	p.t.Helper()
	run := runName.FindString(p.out.String())
	if run == "" {
		p.t.Fatalf("the screen names no run:\n%s", &p.out)
	}
	machine, err := hostmem.Discover("/")
	if err != nil {
		p.t.Fatal(err)
	}
	return &plan{run: run, machine: machine, dir: filepath.Join(p.tmp, run)}
}

// leftNothing fails when anything of the run is still there.
func (p *play) leftNothing() {
	p.t.Helper()
	mine := p.plan()
	if pids := marked(mine.run); len(pids) > 0 {
		p.t.Errorf("left processes %v", pids)
	}
	if dirs := mine.groups(); len(dirs) > 0 {
		p.t.Errorf("left cgroups %v", dirs)
	}
	entries, err := os.ReadDir(p.tmp)
	if err != nil || len(entries) > 0 {
		p.t.Errorf("left files %v, %v", entries, err)
	}
}

// signal sends one to the demo alone, as kill does.
func (p *play) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}
