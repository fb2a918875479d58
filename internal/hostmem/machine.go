package hostmem

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Machine is one machine as seen below a root directory.
type Machine struct {
	proc    string    // the root's /proc
	sys     string    // and /sys
	memory  Hierarchy // where the memory controller is
	unified Hierarchy // cgroup v2, with or without the memory controller
	hugetlb Hierarchy // where huge pages are counted, if anywhere
	own     string    // the agent's own cgroup in memory
	keep    *keeper   // nil: every file is opened anew
}

// Discover finds out how cgroups are laid out below root: all on v2; hybrid, with the
// memory controller on v1 and a v2 tree beside it; v1 alone; or none at all, which is no
// error, as a machine without cgroups can still be measured as a whole.
func Discover(root string) (*Machine, error) {
	m := &Machine{proc: filepath.Join("/", root, "proc"), sys: filepath.Join("/", root, "sys")}
	mounts, err := read(m.proc+"/self/mountinfo", infallible(ParseMountinfo))
	if err != nil {
		return nil, fmt.Errorf("find the cgroup mounts: %w (is /proc mounted?)", err)
	}
	groups, err := read(m.proc+"/self/cgroup", infallible(ParseCgroup))
	if err != nil && !isGone(err) { // a kernel without cgroups has no such file
		return nil, fmt.Errorf("find our own cgroup: %w", err)
	}
	m.locate(filepath.Join("/", root), mounts, groups)
	return m, nil
}

func (m *Machine) locate(root string, mounts []Mount, groups []Membership) {
	if v2, ok := widest(mounts, func(m Mount) bool { return m.FSType == "cgroup2" }); ok {
		m.unified = hierarchy(root, v2, 2)
	}
	v1 := func(controller string) Hierarchy {
		mount, ok := widest(mounts, func(m Mount) bool {
			return m.FSType == "cgroup" && slices.Contains(m.Super, controller)
		})
		if !ok {
			return Hierarchy{}
		}
		return hierarchy(root, mount, 1)
	}
	if m.memory = v1("memory"); m.memory.Mounted() {
		m.own = pathIn(groups, "memory")
	} else if m.unified.offers("memory") {
		m.memory, m.own = m.unified, pathIn(groups, "")
	}
	if m.hugetlb = v1("hugetlb"); !m.hugetlb.Mounted() && m.unified.offers("hugetlb") {
		m.hugetlb = m.unified
	}
}

// hierarchy turns a mount into a Hierarchy, unless it cannot be seen below root.
func hierarchy(root string, m Mount, version int) Hierarchy {
	dir := filepath.Join(root, m.Point)
	if !exists(dir) {
		return Hierarchy{}
	}
	// Of all cgroups of v1 the root alone has this file.
	own := version == 1 && exists(dir+"/release_agent")
	return Hierarchy{Version: version, Mount: dir, Top: filepath.Clean("/" + m.Root), root: own}
}

// offers says whether a unified hierarchy has a controller:
//
//	cpuset cpu io memory hugetlb pids
func (h Hierarchy) offers(controller string) bool {
	if !h.Mounted() {
		return false
	}
	has, err := read(h.Mount+"/cgroup.controllers", infallible(func(text []byte) bool {
		return slices.Contains(strings.Fields(string(text)), controller)
	}))
	return err == nil && has
}

// Memory is the hierarchy that has the memory controller, v1 or v2.
func (m *Machine) Memory() Hierarchy { return m.memory }

// Unified is the v2 hierarchy. On a hybrid machine it has no controllers, but pressure,
// freezing and killing per cgroup all the same.
func (m *Machine) Unified() Hierarchy { return m.unified }

// Own is the agent's own cgroup in Memory(), as the kernel names it.
func (m *Machine) Own() string { return m.own }

// Layout is the layout in words, for logs and `plimsoll host check`.
func (m *Machine) Layout() string {
	switch {
	case m.memory.Version == 2:
		return "cgroup v2"
	case m.memory.Version == 1 && m.unified.Mounted():
		return "hybrid: memory on cgroup v1"
	case m.memory.Version == 1:
		return "cgroup v1"
	case m.unified.Mounted():
		return "cgroup v2 without the memory controller"
	}
	return "no cgroups"
}

func infallible[T any](parse func([]byte) T) func([]byte) (T, error) {
	return func(text []byte) (T, error) { return parse(text), nil }
}
