package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// child is a `plimsoll up` of this run.
type child struct {
	log    string // path of what it says
	pid    int
	ended  chan struct{} // closed when it has ended
	result error         // set before that
}

// startChild starts our own binary. Ctrl-C on the terminal is not for it: it is stopped when
// its sandboxes are. The kernel stops it when this process is killed, by the thread that
// started it, which therefore stays.
func startChild(binary, dir string, env []string, args ...string) (*child, error) {
	c := &child{log: filepath.Join(dir, "up.log"), ended: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, fmt.Errorf("open the log of a host: %w", err)
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
		return nil, fmt.Errorf("start a host: %w", err)
	}
	return c, nil
}

func (c *child) running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// How long a host may take to stop.
const stopWithin = 8 * time.Second

// stop ends it and says whether it ended as it should. It may be called twice.
func (c *child) stop() error {
	if !c.running() {
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

// said returns the messages of one level from its log.
func (c *child) said(level string) (messages []string) {
	text, _ := os.ReadFile(c.log) // without it there is nothing to tell
	for line := range strings.Lines(string(text)) {
		_, rest, ok := strings.Cut(line, " level="+level+" msg=")
		if ok {
			messages = append(messages, strings.Trim(strings.TrimSpace(rest), `"`))
		}
	}
	return messages
}

// lastWords is the end of its log.
func (c *child) lastWords() string {
	text, _ := os.ReadFile(c.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(len(lines)-3, 0):], "; ")
}
