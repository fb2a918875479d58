package driver

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// watch waits for the end of the main process and clears the rest away. The main process is
// reaped last: until then nobody else can be given its pid, by which its session is found.
func (p *Process) watch() {
	defer close(p.done)
	defer p.driver.forget(p.id)
	defer p.pidfd.Close()
	p.awaitEnd()
	if p.detached() {
		p.exit = Exit{Unknown: true, Err: ErrDetached}
		return
	}
	oom, oomErr := p.oom()
	killErr := p.killRest()
	p.exit = p.reap()
	p.exit.OOM, p.exit.OwnLimit = oom.Kills > 0, oom.OwnLimit
	p.exit.Err = errors.Join(oomErr, killErr, p.group.remove())
}

// awaitEnd blocks until the main process has ended, or Detach. The runtime's poller does the
// waiting, so that a thousand sandboxes take no thousand threads.
func (p *Process) awaitEnd() {
	conn, err := p.pidfd.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool { return ended(int(fd)) })
	}
	if err == nil || p.detached() {
		return
	}
	// The poller refuses (it should not, since Linux 5.3). To take that for the sandbox's end
	// would kill it, so a thread waits instead.
	p.awaitEndBlocking()
}

func (p *Process) awaitEndBlocking() {
	const recheck = 1000 // ms, for Detach
	fd := []unix.PollFd{{Fd: int32(p.pidfd.Fd()), Events: unix.POLLIN}}
	for !p.detached() {
		if n, err := unix.Poll(fd, recheck); n > 0 && err == nil {
			return
		}
	}
}

func (p *Process) detached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.abandoned
}

// reap takes the exit status. It waits by pidfd before it does by pid: an adopted process is
// in general no child of ours, and its pid may by now be that of one that is.
func (p *Process) reap() Exit {
	for {
		err := unix.Waitid(unix.P_PIDFD, int(p.pidfd.Fd()), nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return Exit{Unknown: true}
		}
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.pid, &status, 0, nil)
		if err == nil {
			return exitOf(status)
		}
		if err != syscall.EINTR {
			return Exit{Unknown: true, Err: fmt.Errorf("reap process %d: %w", p.pid, err)}
		}
	}
}

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	return Exit{Code: status.ExitStatus()}
}
