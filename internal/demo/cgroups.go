package demo

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// tops are the directories of this run's cgroups, one in each hierarchy.
func (p *plan) tops() (dirs []string) {
	for _, h := range []hostmem.Hierarchy{p.machine.Memory(), p.machine.Unified()} {
		if dir := h.Dir("/" + p.run); h.Mounted() && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// groups lists every cgroup of this run, those below first.
func (p *plan) groups() (dirs []string) {
	for _, top := range p.tops() {
		filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // what vanished meanwhile is what we want
		})
	}
	slices.Reverse(dirs)
	return dirs
}

// sandboxGroups are those that belong to sandboxes: the parents, which the hosts keep, left out.
func (p *plan) sandboxGroups() []string {
	return slices.DeleteFunc(p.groups(), func(dir string) bool {
		return slices.ContainsFunc(p.tops(), func(top string) bool {
			rest := strings.TrimPrefix(dir, top)
			return rest == "" || slices.ContainsFunc(modes(), func(m gate.Mode) bool { return rest == "/"+m.String() })
		})
	})
}

// removeGroups removes them all. One is busy for a moment after its last process is gone.
func (p *plan) removeGroups(ctx context.Context) error {
	for {
		p.emptyGroups()
		var failed error
		for _, dir := range p.groups() {
			if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
				failed = fmt.Errorf("remove cgroup %s: %w", dir, err)
			}
		}
		if failed == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return failed
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// emptyGroups kills what sits in them: a boot that was cut off before it bore the mark.
func (p *plan) emptyGroups() {
	for _, dir := range p.groups() {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(text)) {
			endIn(dir, word)
		}
	}
}

// endIn kills a process if it is still in the cgroup once it is held.
func endIn(dir, word string) {
	var pid int
	if _, err := fmt.Sscan(word, &pid); err != nil || pid <= 0 {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err == nil && slices.Contains(strings.Fields(string(text)), word) {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}
