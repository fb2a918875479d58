// Package child runs this program again as a process below this one, which ends with it: when
// it is told to, and, by the kernel, when this one is killed.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Child is one such process. Its methods may be called from any goroutine.
type Child struct {
	log    string // path of what it says
	pid    int
	ended  chan struct{} // closed when it has ended
	result error         // set before that
}

// Start starts a binary, which writes to a log. Ctrl-C on the terminal is not for it: it is stopped when
// its sandboxes are. The kernel stops it when this process is killed, by the thread that
// started it, which therefore stays.
func Start(binary, logFile string, env []string, args ...string) (*Child, error) {
	c := &Child{log: logFile, ended: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, fmt.Errorf("open the log of a process: %w", err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		defer close(c.ended)
		defer log.Close()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			c.result = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	return c, nil
}

// Ended is closed when it has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// PID is its process id.
func (c *Child) PID() int { return c.pid }

// Running says whether it has not ended.
func (c *Child) Running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// How long one may take to stop.
const stopWithin = 8 * time.Second

// Stop ends it and says whether it ended as it should. It may be called twice.
func (c *Child) Stop() error {
	if !c.Running() {
		return c.result
	}
	syscall.Kill(c.pid, syscall.SIGTERM) // it is our child and not waited for yet, so the pid is its own
	select {
	case <-c.ended:
		return c.result
	case <-time.After(stopWithin):
	}
	syscall.Kill(c.pid, syscall.SIGKILL)
	<-c.ended
	return errors.New("it did not stop within " + stopWithin.String() + " and was killed")
}

// Said returns the messages of one level from its log.
func (c *Child) Said(level string) (messages []string) {
	text, _ := os.ReadFile(c.log) // without it there is nothing to tell
	for line := range strings.Lines(string(text)) {
		_, rest, ok := strings.Cut(line, " level="+level+" msg=")
		if ok {
			messages = append(messages, strings.Trim(strings.TrimSpace(rest), `"`))
		}
	}
	return messages
}

// LastWords is the end of its log.
func (c *Child) LastWords() string {
	text, _ := os.ReadFile(c.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(len(lines)-3, 0):], "; ")
}
