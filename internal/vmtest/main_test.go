package vmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/microvm"
)

// Each step of a check says something within the first; all of them are over within the
// second. With little beside them it is seconds, and about one minute; an emulated processor
// that gets a tenth of a real one takes ten times as long.
const (
	silentFor = 2 * time.Minute
	overIn    = 10 * time.Minute
)

// binaries are the program as it is shipped and the guest's init, built once for all tests.
var binaries = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "plimsoll-vm"); err != nil {
		return "", err
	}
	for _, name := range []string{"cmd/plimsoll", "internal/vmtest/guest"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", // in the guest it takes memory
			"-o", filepath.Join(dir, filepath.Base(name)), "github.com/plimsoll-project/plimsoll/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		if out, err := build.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("%w\n%s", err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if dir, _ := binaries(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

// built is the path of one of the binaries.
func built(t *testing.T, name string) string {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// config is of a machine with our init.
func config(t *testing.T, memoryMB int64, args ...string) microvm.Config {
	t.Helper()
	tools, err := microvm.Find()
	if err != nil {
		t.Fatal(err)
	}
	return microvm.Config{Tools: tools, Dir: t.TempDir(), MemoryMB: memoryMB, Init: built(t, "guest"), Args: args}
}

// guest is a machine whose console tells of events.
type guest struct {
	*microvm.Machine
	t    *testing.T
	ctx  context.Context
	lost bool // it said something that was not expected, or nothing
}

// boots starts a machine. What it showed last is shown where the test fails.
func boots(t *testing.T, c microvm.Config) *guest {
	t.Helper()
	m, err := microvm.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), overIn, fmt.Errorf("it is not over after %v", overIn))
	t.Cleanup(func() {
		cancel()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of the console:\n%s", ending(m.Tail()))
		}
	})
	return &guest{Machine: m, t: t, ctx: ctx}
}

// ending is the end of a console for people: what events told was told.
func ending(console string) string {
	const lines, width = 30, 200
	all := strings.Split(console, "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		all[i] = line[:min(len(line), width)]
	}
	return strings.Join(all, "\n")
}

// event waits for the next one, and passes over what else the console shows.
func (g *guest) event() Event {
	g.t.Helper()
	ctx, cancel := context.WithTimeoutCause(g.ctx, silentFor, fmt.Errorf("it said nothing for %v", silentFor))
	defer cancel()
	for {
		line, err := g.Line(ctx)
		if err != nil {
			g.lost = true
			g.t.Fatalf("the machine hangs, or ended before its time: %v", err)
		}
		if e, ok := ParseLine(line); ok {
			return e
		}
	}
}

// off waits until the machine has turned itself off.
func (g *guest) off() {
	g.t.Helper()
	for {
		line, err := g.Line(g.ctx)
		if errors.Is(err, microvm.ErrOff) {
			return
		}
		if err != nil {
			g.t.Fatalf("it does not turn itself off: %v", err)
		}
		if e, ok := ParseLine(line); ok {
			g.t.Errorf("after the end it says %+v", e)
		}
	}
}
