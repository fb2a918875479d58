package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// Grace is how long a sandbox may take to end by itself after TERM.
func (d *Driver) Grace() time.Duration { return d.grace }

// EndGroup stops all that runs in a cgroup that the driver does not watch, politely first, and
// leaves the cgroup itself to whoever made it. It refuses one that this agent or another
// sandbox is in.
func (d *Driver) EndGroup(ctx context.Context, cgroup string, grace time.Duration) error {
	clean := path.Clean("/" + cgroup)
	if own := d.machine.Own(); clean == "/" || hostmem.Below(own, clean) || hostmem.Below(d.parent, clean) {
		return fmt.Errorf("stop cgroup %s: this agent or its sandboxes are in it", cgroup)
	}
	if id, ours := strings.CutPrefix(path.Base(clean), prefix); ours && path.Dir(clean) == d.parent && d.knows(id) {
		return fmt.Errorf("stop cgroup %s: it is a sandbox's that runs", cgroup)
	}
	g := group{path: clean}
	for _, h := range [...]hostmem.Hierarchy{d.machine.Memory(), d.machine.Unified()} {
		if !h.Mounted() {
			continue
		}
		if dir := h.Dir(clean); len(g.dirs) == 0 || g.dirs[0] != dir {
			if _, err := os.Stat(dir); err == nil {
				g.dirs = append(g.dirs, dir)
			}
		}
	}
	alive := g.alive
	polite := func() { g.signal(unix.SIGTERM); g.signal(unix.SIGCONT) } // a stopped process takes no TERM
	if err := endPolitely(ctx, grace, alive, polite, g.kill); err != nil {
		return fmt.Errorf("stop cgroup %s: %w", cgroup, err)
	}
	return nil
}

// EndTree stops a process tree that the driver does not watch, politely first. A pid that is
// another's by now is left alone.
func (d *Driver) EndTree(ctx context.Context, pid int, start uint64, grace time.Duration) error {
	if pid <= 1 || pid == os.Getpid() {
		return fmt.Errorf("stop process %d: that is no sandbox", pid)
	}
	var failed error
	p := &Process{driver: d, pid: pid, startTime: start}
	all := func() []hostmem.Proc {
		tree, err := p.tree()
		failed = err
		return tree
	}
	alive := func() (pids []int) {
		for _, proc := range all() {
			pids = append(pids, proc.PID)
		}
		return pids
	}
	send := func(sig unix.Signal) {
		for _, proc := range all() {
			d.signal(proc, sig)
		}
	}
	kill := func() error {
		return untilGone(func() []int { send(unix.SIGKILL); return alive() })
	}
	p.remnants = all() // and with it the trace to those that open sessions of their own
	err := endPolitely(ctx, grace, alive, func() { send(unix.SIGTERM); send(unix.SIGCONT) }, kill)
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("stop the process tree of %d: %w", pid, err)
	}
	return nil
}

const lookAgain = 50 * time.Millisecond

// endPolitely asks, and kills what is left after the grace, or when ctx ends.
func endPolitely(ctx context.Context, grace time.Duration, alive func() []int, ask func(), kill func() error) error {
	ask()
	patience, again := time.NewTimer(grace), time.NewTicker(lookAgain)
	defer patience.Stop()
	defer again.Stop()
	for len(alive()) > 0 {
		select {
		case <-again.C:
			continue
		case <-patience.C:
		case <-ctx.Done():
		}
		return kill()
	}
	return nil
}
