package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// What a host does to a sandbox that has to go, and tells the kernel of who would go first.

// Kill ends a sandbox at once: all of its cgroup where it has one, be it the driver's or, as
// cgroup, its booter's; else its tree, each process by its start time. Nothing is asked to end.
func (p *Process) Kill(cgroup string) error {
	if h := p.takeHold(); h != nil {
		h.close()
	}
	if p.group.path == "" {
		p.remember()
		if g, err := p.driver.theirs(cgroup, p.pid); err == nil {
			g.strike()
		}
	}
	p.strike()
	last := time.NewTimer(2 * killTimeout)
	defer last.Stop()
	select {
	case <-p.done:
		return p.stopped()
	case <-last.C:
		return fmt.Errorf("kill sandbox %s: process %d is still there %v later, so it hangs in the kernel: look at /proc/%d/stack", p.id, p.pid, 2*killTimeout, p.pid)
	}
}

var errNotTheirs = errors.New("that is no cgroup of this sandbox")

// theirs is the cgroup that a booter named for its sandbox, if the sandbox is in it and we, and
// what all sandboxes are below, are not.
func (d *Driver) theirs(cgroup string, pid int) (group, error) {
	at, err := d.machine.CgroupOf(pid)
	clean := path.Clean("/" + cgroup)
	switch {
	case err != nil:
		return group{}, err
	case !d.machine.Memory().Mounted() || cgroup == "" || clean == "/" || !hostmem.Below(at, clean) || hostmem.Below(d.machine.Own(), clean) || hostmem.Below(d.parent, clean):
		return group{}, errNotTheirs
	}
	return group{path: clean, dirs: []string{d.machine.Memory().Dir(clean)}}, nil
}

// ErrNotLowered says that the kernel lets this agent raise an oom_score_adj and not lower it.
var ErrNotLowered = errors.New("without CAP_SYS_RESOURCE an oom_score_adj can be raised only, never be lowered")

// Table is the processes of the machine. Whoever has many sandboxes looked through makes it once.
type Table func() (*hostmem.Processes, error)

// SetOOMScoreAdj tells the kernel how soon it should choose this sandbox, which may be in a cgroup
// of its booter's. What its processes start from now on inherits it.
func (p *Process) SetOOMScoreAdj(adj int, cgroup string, table Table) error {
	var failed error
	for _, pid := range p.pids(cgroup, table) {
		// By name: between list and write the pid may be another's, which then has an odd place in
		// the kernel's order until it ends, and no more than that.
		err := put(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), strconv.Itoa(adj))
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH):
		case errors.Is(err, fs.ErrPermission):
			failed = ErrNotLowered
		default:
			failed = fmt.Errorf("set the oom_score_adj of process %d: %w", pid, err)
		}
	}
	return failed
}

// pids lists what lives of the sandbox. The table is needed only for one without any cgroup.
func (p *Process) pids(cgroup string, table Table) (pids []int) {
	if p.group.path != "" {
		return p.group.pids()
	}
	if g, err := p.driver.theirs(cgroup, p.pid); err == nil {
		return g.pids()
	}
	procs, err := table()
	if err != nil {
		return []int{p.pid}
	}
	for _, proc := range p.treeIn(procs) {
		pids = append(pids, proc.PID)
	}
	return pids
}
