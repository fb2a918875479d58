package agent_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/agent"
)

// A lock that a killed process's child holds for a moment more is waited for; one that is
// held for good is not.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := agent.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "0.2")
	child.ExtraFiles = []*os.File{first}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	first.Close() // the child has it still
	second, err := agent.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	child.Wait()
	began := time.Now()
	if _, err := agent.Lock(path); !errors.Is(err, agent.ErrLocked) {
		t.Errorf("held twice: %v after %v", err, time.Since(began))
	}
	second.Close()
	third, err := agent.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	third.Close()
	if _, err := agent.Lock(filepath.Join(path, "below")); err == nil || errors.Is(err, agent.ErrLocked) {
		t.Errorf("nowhere: %v", err)
	}
}
