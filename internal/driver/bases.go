package driver

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// base is one hierarchy in which sandboxes get a cgroup.
type base struct {
	hierarchy hostmem.Hierarchy
	limits    bool // the memory controller is here
}

const remedy = "run the agent as root, or under systemd with Delegate=yes and the cgroup parent inside of what it delegates"

// findBases tries out where cgroups can be made. On a hybrid machine a sandbox gets two: one
// with the memory limit, and one that can be frozen and killed as a whole.
func (d *Driver) findBases() {
	memory, unified := d.machine.Memory(), d.machine.Unified()
	if !memory.Mounted() {
		d.warn("this machine has no memory controller (%s): no sandbox has a limit of its own. Remedy: boot with cgroup v2 and its memory controller, and mount it in the agent's container", d.machine.Layout())
	} else {
		d.try(base{memory, true})
	}
	if unified.Mounted() && unified.Mount != memory.Mount {
		d.try(base{unified, false})
	}
	if len(d.bases) == 0 {
		d.warn("sandboxes run without cgroups: a process that leaves its session outlives its sandbox. Remedy: %s", remedy)
	}
}

// try makes the parent in one hierarchy, and takes the hierarchy if a sandbox's cgroup could
// be made there.
func (d *Driver) try(b base) {
	err := b.makeParent(d.parent)
	if err == nil {
		probe := filepath.Join(b.hierarchy.Dir(d.parent), "probe-"+strconv.Itoa(os.Getpid()))
		if err = os.Mkdir(probe, 0o755); err == nil {
			err = unix.Rmdir(probe)
		}
	}
	switch {
	case err == nil:
		d.bases = append(d.bases, b)
	case b.limits:
		d.warn("no memory limit of its own for any sandbox: %v. Remedy: %s", err, remedy)
	default:
		d.warn("sandboxes cannot be killed in one step: %v. Remedy: %s", err, remedy)
	}
}

// makeParent makes the parent and hands the memory controller down to it: on v2 a cgroup has
// only the controllers that every one above it passes on.
func (b base) makeParent(parent string) error {
	dir := b.hierarchy.Dir(parent)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the cgroup of all sandboxes: %w", err)
	}
	if !b.limits || b.hierarchy.Version != 2 {
		return nil
	}
	for _, at := range levels(b.hierarchy.Mount, dir) {
		if err := passMemoryOn(at); err != nil {
			return err
		}
	}
	return nil
}

// levels lists the directories from top down to dir, both included.
func levels(top, dir string) []string {
	var all []string
	for at := dir; len(at) >= len(top) && at != "/"; at = path.Dir(at) {
		all = append(all, at)
	}
	slices.Reverse(all)
	return all
}

func passMemoryOn(dir string) error {
	file := dir + "/cgroup.subtree_control"
	have, err := os.ReadFile(file)
	if err == nil && slices.Contains(strings.Fields(string(have)), "memory") {
		return nil // and perhaps not ours to write
	}
	if err == nil {
		err = put(file, "+memory")
	}
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("pass the memory controller on: %w: processes sit in that cgroup itself; move them into one below it", err)
	}
	if err != nil {
		return fmt.Errorf("pass the memory controller on: %w", err)
	}
	return nil
}

// withoutCgroups is for a machine that let us make cgroups, and then no process move in.
func (d *Driver) withoutCgroups(err error) {
	d.mu.Lock()
	d.bases = nil
	d.mu.Unlock()
	d.warn("sandboxes run without cgroups and without limits: %v. Remedy: %s", err, remedy)
}

// put writes a kernel file. It must be there: a kernel that lacks it must not be given a
// plain file of that name by a test's fixture tree.
func put(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
