package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// execTimeout bounds how long a released helper may take to become its command; a program on
// a dead network disk never would.
const execTimeout = 30 * time.Second

// Process is one sandbox, held or running.
type Process struct {
	driver    *Driver
	id        string
	pid       int
	startTime uint64
	group     group
	pidfd     *os.File

	mu        sync.Mutex     // guards what follows; never held across I/O
	held      *hold          // nil once it was released or aborted
	remnants  []hostmem.Proc // its tree when Stop began: the main process's end hides some of it
	abandoned bool           // by Detach

	done chan struct{} // closed when the sandbox has ended
	exit Exit          // set before that
}

// Exit is how a sandbox ended.
type Exit struct {
	Code     int            // exit status of the main process
	Signal   syscall.Signal // that killed it; 0 for none
	OOM      bool           // the kernel killed something in it for want of memory
	OwnLimit bool           // it met its own limit; OOM without it means that the host ran out
	Unknown  bool           // it was not our child: Code and Signal say nothing
	Err      error          // what of it could not be cleared away, or ErrDetached
}

// ErrDetached is the Err of a sandbox that is no longer watched, and may well run on.
var ErrDetached = errors.New("the sandbox is no longer watched: adopt it to learn its end")

// String says it in the words of a log line.
func (e Exit) String() string {
	text := fmt.Sprintf("exit status %d", e.Code)
	switch {
	case e.Unknown:
		text = "ended, status unknown"
	case e.Signal != 0:
		text = fmt.Sprintf("killed by signal %d (%v)", int(e.Signal), e.Signal)
	}
	switch {
	case e.OOM && e.OwnLimit:
		text += ", out of memory at its own limit"
	case e.OOM:
		text += ", out of memory of the host"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (d *Driver) newProcess(id string, pid, pidfd int) *Process {
	unix.SetNonblock(pidfd, true) // what the runtime's poller asks for; a read of it is never tried
	return &Process{
		driver: d, id: id, pid: pid,
		pidfd: os.NewFile(uintptr(pidfd), fmt.Sprintf("pidfd of %d", pid)),
		done:  make(chan struct{}),
	}
}

// ID is the sandbox's own name.
func (p *Process) ID() string { return p.id }

// Pid is that of its main process.
func (p *Process) Pid() int { return p.pid }

// StartTime names the main process for good, together with Pid and the boot id.
func (p *Process) StartTime() uint64 { return p.startTime }

// Cgroup is the cgroup of the sandbox as the kernel names it, "" where it has none.
func (p *Process) Cgroup() string { return p.group.path }

// Go releases a held sandbox. Where its command cannot be run it says which and why, and the
// sandbox has ended.
func (p *Process) Go() error {
	h := p.takeHold()
	if h == nil {
		return fmt.Errorf("release sandbox %s: it is not held: it was released or aborted before", p.id)
	}
	defer h.close()
	if err := h.letGo(); err != nil {
		p.end()
		return fmt.Errorf("release sandbox %s: %w", p.id, err)
	}
	return nil
}

// letGo writes the byte and waits for the pipe to close, which is the command's start.
func (h *hold) letGo() error {
	if _, err := h.orders.Write([]byte{release}); err != nil {
		return fmt.Errorf("%w: its helper was killed while it was held: prepare it anew", err)
	}
	h.replies.SetReadDeadline(time.Now().Add(execTimeout))
	var r reply
	switch err := h.decoder.Decode(&r); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("start its command: %w: does it lie on a disk that does not answer?", err)
	}
	return r.err()
}

func (p *Process) takeHold() *hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held
	p.held = nil
	return h
}

// Abort ends a sandbox that was never released. On one that runs it does nothing: see Stop.
func (p *Process) Abort() {
	if h := p.takeHold(); h != nil {
		h.close()
		p.end()
	}
}

// end kills the main process and waits for the watch to clear the rest away; not for ever, as
// a process may hang in the kernel.
func (p *Process) end() {
	p.signalMain(unix.SIGKILL)
	last := time.NewTimer(2 * killTimeout)
	defer last.Stop()
	select {
	case <-p.done:
	case <-last.C:
	}
}

// discard is end for a process that nobody watches yet.
func (p *Process) discard() {
	p.held.close()
	p.signalMain(unix.SIGKILL)
	p.awaitEnd()
	p.reap()
	p.pidfd.Close()
}

// Wait waits for the end of the sandbox, which includes that nothing of it is left.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// Done is closed when Wait would no longer block.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop asks the whole tree to end, gives it the grace, then kills what is left. Where the
// context ends first the grace does too: a sandbox is never left half stopped. The error is
// one of clearing it away, and nil for a sandbox that had ended by itself.
func (p *Process) Stop(ctx context.Context) error {
	p.Abort()
	if p.hasEnded() {
		return p.stopped()
	}
	p.remember()
	p.signalTree(unix.SIGTERM)
	p.signalTree(unix.SIGCONT) // a stopped process takes no TERM
	grace := time.NewTimer(p.driver.grace)
	defer grace.Stop()
	select {
	case <-p.done:
		return p.stopped()
	case <-grace.C:
	case <-ctx.Done():
	}
	p.strike()
	last := time.NewTimer(2 * killTimeout) // the main process's end, then that of the rest
	defer last.Stop()
	select {
	case <-p.done:
		return p.stopped()
	case <-last.C:
		return fmt.Errorf("stop sandbox %s: process %d is still there %v after KILL, so it hangs in the kernel: look at /proc/%d/stack", p.id, p.pid, 2*killTimeout, p.pid)
	}
}

func (p *Process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *Process) stopped() error {
	if p.exit.Err != nil {
		return fmt.Errorf("stop sandbox %s: %w", p.id, p.exit.Err)
	}
	return nil
}

// Detach stops watching and leaves the sandbox as it is, for an agent that ends before its
// sandboxes do. A held one ends with its pipe.
func (p *Process) Detach() {
	p.mu.Lock()
	p.abandoned = true
	p.mu.Unlock()
	p.pidfd.SetReadDeadline(time.Unix(1, 0))
	<-p.done
	if h := p.takeHold(); h != nil {
		h.close()
	}
}
