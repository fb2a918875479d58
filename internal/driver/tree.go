package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// A sandbox with a cgroup is all that is in it. One without is its main process, the session
// that this leads, and their descendants, as far as the process table still shows them.

// tree lists what lives of a sandbox without a cgroup, and who of it was known before.
func (p *Process) tree() ([]hostmem.Proc, error) {
	table, err := p.driver.machine.Processes()
	if err != nil {
		return nil, err
	}
	return p.treeIn(table), nil
}

func (p *Process) treeIn(table *hostmem.Processes) []hostmem.Proc {
	p.mu.Lock()
	roots := append([]hostmem.Proc{{PID: p.pid, StartTime: p.startTime}}, p.remnants...)
	p.mu.Unlock()
	var all []hostmem.Proc
	seen := map[int]bool{}
	for _, root := range roots {
		if now, ok := table.Lookup(root.PID); ok && now.StartTime != root.StartTime {
			continue // the pid is another's by now, and so is what hangs on it
		}
		for _, proc := range table.Tree(root.PID) {
			if !seen[proc.PID] && !dead(proc.PID) {
				seen[proc.PID] = true
				all = append(all, proc)
			}
		}
	}
	return all
}

// remember keeps the tree as it is before its main process ends, and with it the trace to
// those that opened sessions of their own.
func (p *Process) remember() {
	if p.group.path != "" {
		return
	}
	if now, err := p.tree(); err == nil {
		p.mu.Lock()
		p.remnants = now
		p.mu.Unlock()
	}
}

func (p *Process) signalTree(sig unix.Signal) {
	if p.group.path != "" {
		p.group.signal(sig)
		return
	}
	all, err := p.tree()
	if err != nil { // without a process table there is still the one we hold
		p.signalMain(sig)
	}
	for _, proc := range all {
		p.driver.signal(proc, sig)
	}
}

// strike kills all of the sandbox once. That ends the main process, and the watch does the rest.
func (p *Process) strike() {
	p.signalMain(unix.SIGKILL)
	if p.group.path != "" {
		p.group.strike()
		return
	}
	p.signalTree(unix.SIGKILL)
}

// Signal passes a signal on to the main process. By then it may have ended, which is no
// error, and its pid may be another's, which is why nobody should send by that.
func (p *Process) Signal(sig syscall.Signal) { p.signalMain(sig) }

// signalMain goes by the pidfd, which never means another process. One that has ended needs
// no signal, so that is no error.
func (p *Process) signalMain(sig unix.Signal) {
	conn, err := p.pidfd.SyscallConn()
	if err != nil {
		return
	}
	conn.Control(func(fd uintptr) { unix.PidfdSendSignal(int(fd), sig, nil, 0) })
}

// signal holds a process by a pidfd before it compares its start time, so that it cannot be
// another by the time the signal goes out.
func (d *Driver) signal(proc hostmem.Proc, sig unix.Signal) {
	fd, err := unix.PidfdOpen(proc.PID, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	if at, err := d.machine.StartTime(proc.PID); err == nil && at == proc.StartTime {
		unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// killRest kills what outlived the main process.
func (p *Process) killRest() error {
	if p.group.path != "" {
		return p.group.kill()
	}
	var failed error
	err := untilGone(func() []int {
		all, err := p.tree()
		failed = err
		var pids []int
		for _, proc := range all {
			p.driver.signal(proc, unix.SIGKILL)
			pids = append(pids, proc.PID)
		}
		return pids
	})
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("find what is left of sandbox %s: %w", p.id, failed))
	}
	return err
}

// oom asks the cgroup, while it is there, what the kernel killed in it.
func (p *Process) oom() (hostmem.OOM, error) {
	if p.group.path == "" || !p.driver.Limits() {
		return hostmem.OOM{}, nil
	}
	o, err := p.driver.machine.OOM(p.group.path)
	if errors.Is(err, fs.ErrNotExist) { // removed under us: then there is nothing to tell
		return hostmem.OOM{}, nil
	}
	return o, err
}
