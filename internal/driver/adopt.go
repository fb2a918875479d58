package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Adopt takes over a sandbox that an earlier agent started, by what that one had on record.
// It is watched and ends as any other, but its exit status is known to its parent only:
// Exit.Unknown. A main process that is gone, or whose pid is another's by now, answers with
// fs.ErrNotExist; what is left in its cgroup is then found by Sweep.
func (d *Driver) Adopt(id string, pid int, startTime uint64, cgroup string) (*Process, error) {
	p, err := d.adopt(id, pid, startTime, cgroup)
	if err != nil {
		return nil, fmt.Errorf("adopt sandbox %s: %w", id, err)
	}
	return p, nil
}

func (d *Driver) adopt(id string, pid int, startTime uint64, cgroup string) (*Process, error) {
	g, err := d.known(id, cgroup)
	if err != nil {
		return nil, err
	}
	if err := d.claim(id); err != nil {
		return nil, err
	}
	pidfd, err := d.grip(pid, startTime)
	if err != nil {
		d.forget(id)
		return nil, err
	}
	p := d.newProcess(id, pid, pidfd)
	p.startTime, p.group = startTime, g
	d.enter(id, p)
	go p.watch()
	return p, nil
}

// grip holds a process by a pidfd and then makes sure that it is the one that was meant.
func (d *Driver) grip(pid int, startTime uint64) (pidfd int, err error) {
	if pid <= 1 {
		return -1, fmt.Errorf("process %d is no sandbox: %w", pid, fs.ErrNotExist)
	}
	pidfd, err = unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: the pid is a mere thread's by now
		return -1, fmt.Errorf("process %d is gone: %w", pid, fs.ErrNotExist)
	}
	if err != nil {
		return -1, fmt.Errorf("hold process %d: %w: Linux 5.4 or newer is needed", pid, err)
	}
	now, err := d.machine.StartTime(pid)
	if err == nil && now != startTime {
		err = fmt.Errorf("process %d started at tick %d and the sandbox at %d, so the pid is another's: %w", pid, now, startTime, fs.ErrNotExist)
	}
	if err != nil {
		unix.Close(pidfd)
		return -1, err
	}
	return pidfd, nil
}

// known turns a cgroup on record into a group. All that is in a group is killed in the end,
// so it must be a sandbox's and below our own parent, whatever the record says.
func (d *Driver) known(id, cgroup string) (group, error) {
	if !idPattern.MatchString(id) {
		return group{}, fmt.Errorf("sandbox id %.140q: use 1 to 128 of A-Z a-z 0-9 . _ : -", id)
	}
	if cgroup == "" {
		return group{}, nil
	}
	if want := d.CgroupOf(id); path.Clean("/"+cgroup) != want {
		return group{}, fmt.Errorf("cgroup %s is not that of this sandbox, %s: was the agent's cgroup parent changed? Stop the sandbox under the old one first", cgroup, want)
	}
	g := d.group(id)
	g.dirs = slices.DeleteFunc(g.dirs, func(dir string) bool { _, err := os.Stat(dir); return err != nil })
	if len(g.dirs) == 0 {
		return group{}, nil
	}
	return g, nil
}

// CgroupOf names the cgroup that a sandbox of this driver has, if it has one.
func (d *Driver) CgroupOf(id string) string { return path.Join(d.parent, prefix+id) }

// Stray is a sandbox's cgroup that nobody knows.
type Stray struct {
	ID     string
	Cgroup string
	PIDs   []int // empty where an agent died before it could remove it
}

// Sweep lists the sandboxes' cgroups below the parent that neither keep nor the driver knows,
// such as those of a lost state file. It kills nothing.
func (d *Driver) Sweep(keep func(id string) bool) ([]Stray, error) {
	ids, err := d.ids()
	if err != nil {
		return nil, fmt.Errorf("sweep the cgroups below %s: %w", d.parent, err)
	}
	var strays []Stray
	for _, id := range ids {
		if d.knows(id) || keep != nil && keep(id) {
			continue
		}
		g := d.group(id)
		strays = append(strays, Stray{ID: id, Cgroup: g.path, PIDs: g.alive()})
	}
	return strays, nil
}

// ids lists the sandboxes that have a cgroup in any hierarchy.
func (d *Driver) ids() ([]string, error) {
	d.mu.Lock()
	bases := slices.Clone(d.bases)
	d.mu.Unlock()
	var ids []string
	for _, b := range bases {
		entries, err := os.ReadDir(b.hierarchy.Dir(d.parent))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if id, ok := strings.CutPrefix(e.Name(), prefix); ok && e.IsDir() && idPattern.MatchString(id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Remove kills all that is in a stray's cgroup and removes it. It refuses a sandbox that the
// driver watches: that one has a Stop.
func (d *Driver) Remove(id string) error {
	if !idPattern.MatchString(id) {
		return fmt.Errorf("remove sandbox %.140q: that is no sandbox id", id)
	}
	if err := d.claim(id); err != nil {
		return fmt.Errorf("remove the cgroup of a stray: %w", err)
	}
	defer d.forget(id)
	g := d.group(id)
	if err := errors.Join(g.kill(), g.remove()); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return nil
}
