package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/gate"
)

// prefix keeps the names of sandboxes' cgroups apart from the kernel's own files, which are
// in the same directory: an id may well be "memory.max", or "..".
const prefix = "sb-"

// killTimeout is how long killed processes may take to be gone. Longer means that they hang
// in the kernel, where no signal reaches.
const killTimeout = 10 * time.Second

// group is the cgroup of one sandbox, in every hierarchy where it has one. The zero group is
// that of a sandbox without.
type group struct {
	path string   // as the kernel names it
	dirs []string // that of the memory controller first
}

func (d *Driver) group(id string) group {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.bases) == 0 {
		return group{}
	}
	g := group{path: d.CgroupOf(id)}
	for _, b := range d.bases {
		g.dirs = append(g.dirs, b.hierarchy.Dir(g.path))
	}
	return g
}

// makeGroup makes a sandbox's cgroup anew, so that it counts no one else's kills.
func (d *Driver) makeGroup(id string, limit gate.Bytes) (group, error) {
	want := d.group(id)
	made := group{path: want.path}
	for _, dir := range want.dirs {
		if err := makeDir(dir); err != nil {
			return group{}, errors.Join(fmt.Errorf("make the cgroup of sandbox %s: %w", id, err), made.remove())
		}
		made.dirs = append(made.dirs, dir)
	}
	if err := d.limit(made, limit); err != nil {
		return group{}, errors.Join(fmt.Errorf("limit sandbox %s to %s: %w: is the limit above the least the kernel takes?", id, limit, err), made.remove())
	}
	return made, nil
}

// makeDir makes one cgroup. An empty one may be left of an agent that died; one with
// processes is a sandbox, and not ours to take over.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := unix.Rmdir(dir); err != nil {
		return fmt.Errorf("%s is in use (%w): something runs there out of gate; plimsoll reconcile shows it, and it must end first", dir, err)
	}
	return os.Mkdir(dir, 0o755)
}

func (d *Driver) limit(g group, limit gate.Bytes) error {
	if limit == 0 || !d.Limits() {
		return nil
	}
	file := "memory.max"
	if d.machine.Memory().Version == 1 {
		file = "memory.limit_in_bytes"
	}
	return put(filepath.Join(g.dirs[0], file), strconv.FormatInt(int64(limit), 10))
}

// Limits says whether the sandboxes' cgroups have the memory controller, and so tell what they
// hold.
func (d *Driver) Limits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.bases) > 0 && d.bases[0].limits
}

// join moves a process in, with all of its threads.
func (g group) join(pid int) error {
	for _, dir := range g.dirs {
		if err := put(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("move process %d into its cgroup: %w", pid, err)
		}
	}
	return nil
}

// pids lists the processes in a cgroup and in those that it may have made below.
func (g group) pids() []int {
	var all []int
	g.walk(func(dir string) {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return
		}
		for _, word := range strings.Fields(string(text)) {
			// 0 stands for a process of another pid namespace, and for kill(2) for ourselves.
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
				all = append(all, pid)
			}
		}
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// alive is pids without the zombies, which wait for their parents and hold no memory.
func (g group) alive() []int { return slices.DeleteFunc(g.pids(), dead) }

// walk calls f for every cgroup of the group, those below first.
func (g group) walk(f func(dir string)) {
	for _, top := range g.dirs {
		var dirs []string
		filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, name)
			}
			return nil // what vanished meanwhile is what we want
		})
		slices.Reverse(dirs)
		for _, dir := range dirs {
			f(dir)
		}
	}
}

// signal sends to every process of the group. Each is held by a pidfd and then looked for
// again: a pid that is in the group before and after cannot have been used by another.
func (g group) signal(sig unix.Signal) {
	held := map[int]int{} // pid -> pidfd
	for _, pid := range g.pids() {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			held[pid] = fd
			defer unix.Close(fd)
		}
	}
	for _, pid := range g.pids() {
		if fd, ok := held[pid]; ok {
			unix.PidfdSendSignal(fd, sig, nil, 0) // a process that is gone needs no signal
		}
	}
}

// strike kills all at once where the kernel can (cgroup.kill, Linux 5.14), else freezes them
// first where it can (5.2), so that none can fork away between the list and the signal.
func (g group) strike() {
	whole := false
	for _, dir := range g.dirs {
		whole = put(filepath.Join(dir, "cgroup.kill"), "1") == nil || whole
	}
	if !whole {
		for _, dir := range g.dirs {
			put(filepath.Join(dir, "cgroup.freeze"), "1") // a v1 directory has no such file
		}
	}
	g.signal(unix.SIGKILL)
}

// kill kills until nothing is left alive.
func (g group) kill() error {
	return untilGone(func() []int {
		alive := g.alive()
		if len(alive) > 0 {
			g.strike()
		}
		return alive
	})
}

// remove removes the directories. The kernel calls a cgroup busy for a moment after its last
// process is gone.
func (g group) remove() error {
	deadline := time.Now().Add(killTimeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		var left error
		g.walk(func(dir string) {
			if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
				left = fmt.Errorf("remove cgroup %s: %w: see its cgroup.procs", dir, err)
			}
		})
		if left == nil || time.Now().After(deadline) {
			return left
		}
		time.Sleep(pause)
	}
}

// untilGone calls round, which kills what it finds alive and returns it, until it finds
// nothing any more.
func untilGone(round func() []int) error {
	deadline := time.Now().Add(killTimeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		alive := round()
		if len(alive) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("kill processes %v: still there after %v, so they hang in the kernel: look at /proc/<pid>/stack, and at the disks or network they wait for", alive, killTimeout)
		}
		time.Sleep(pause)
	}
}

// dead says whether a process has ended, reaped or not. The state in /proc is no proof: it is
// the main thread's, which can be a zombie while others run on.
func dead(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err == unix.ESRCH
	}
	defer unix.Close(fd)
	return ended(fd)
}

// ended says whether the process of a pidfd has.
func ended(pidfd int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}
