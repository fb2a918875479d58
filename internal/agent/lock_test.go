package agent_test

import (
	"errors"
	"net"
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

// So is a socket: whoever listens on it for good is another agent.
func TestASocketThatAChildHasForAMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if agent.Answers(path) {
		t.Error("nobody listens")
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if !agent.Answers(path) {
		t.Error("somebody listens")
	}
	f, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	child := exec.Command("sleep", "0.2")
	child.ExtraFiles = []*os.File{f}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	l.Close() // the child has it still
	if agent.Answers(path) {
		t.Error("only a child that is about to be another program had it")
	}
	child.Wait()
}
