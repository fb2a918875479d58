package hostmem

import (
	"fmt"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
)

// MachineLimit is the name of the limit that the machine itself is. A cgroup's is
// "cgroup:" and its path.
const MachineLimit = "machine"

// Meminfo reads what the machine as a whole has.
func (m *Machine) Meminfo() (Meminfo, error) {
	info, err := reread(m, m.proc+"/meminfo", ParseMeminfo)
	if err != nil {
		return Meminfo{}, fmt.Errorf("measure the machine: %w", err)
	}
	return info, nil
}

// Limits returns every bound on what sandboxes below the cgroup parent may use, with what
// counts against each: the machine first, then every cgroup with a finite limit that is
// parent, the agent's own or above either of the two. A cgroup that is not there (parent
// before the first sandbox) bounds nothing. One that cannot be read is an error: room
// that was not measured is not promised.
func (m *Machine) Limits(parent string) ([]gate.Limit, error) {
	info, err := m.Meminfo()
	if err != nil {
		return nil, err
	}
	limits := []gate.Limit{{Name: MachineLimit, Size: info.Total, Used: info.Used()}}
	for _, cgroup := range m.bounding(parent) {
		l, ok, err := m.limit(cgroup, info.Total)
		if err != nil {
			return nil, fmt.Errorf("measure the limit of cgroup %s: %w", cgroup, err)
		}
		if ok {
			limits = append(limits, l)
		}
	}
	return limits, nil
}

// bounding lists parent, the agent's own cgroup and all above them, each once, but for a root
// that cannot have a limit: to read that one's statistics has the kernel add up the machine's. The
// agent dies of its own limits just as surely as the sandboxes of theirs.
func (m *Machine) bounding(parent string) []string {
	if !m.memory.Mounted() {
		return nil
	}
	return m.keep.chained(parent, m.chains)
}

func (m *Machine) chains(parent string) []string {
	all := m.memory.chain(parent)
	for _, c := range m.memory.chain(m.own) {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return slices.DeleteFunc(all, func(c string) bool { return m.memory.root && m.memory.Dir(c) == m.memory.Mount })
}

// limit measures one cgroup, and says false where it is without a limit or not there.
func (m *Machine) limit(cgroup string, total gate.Bytes) (gate.Limit, bool, error) {
	dir := m.memory.Dir(cgroup)
	size, err := m.size(dir)
	if isGone(err) || err == nil && !finite(size, total) {
		return gate.Limit{}, false, nil
	}
	if err != nil {
		return gate.Limit{}, false, err
	}
	used, err := m.usage(dir)
	if isGone(err) {
		return gate.Limit{}, false, nil
	}
	return gate.Limit{Name: "cgroup:" + cgroup, Size: size, Used: used}, err == nil, err
}

// size is what a cgroup can hold: its limit, and on v2 memory.high where that is less, above
// which the kernel lets all in it stall.
func (m *Machine) size(dir string) (gate.Bytes, error) {
	most, err := m.max(dir)
	if err != nil || m.memory.Version != 2 {
		return most, err
	}
	high, err := reread(m, dir+"/memory.high", ParseValue)
	if isGone(err) { // before Linux 4.5, and in the root
		return most, nil
	}
	return min(most, high), err
}

// max is a cgroup's limit. The topmost one that can be seen on v1 also answers for what lies
// above it, out of a container's sight.
func (m *Machine) max(dir string) (gate.Bytes, error) {
	if m.memory.Version == 2 {
		return reread(m, dir+"/memory.max", ParseValue)
	}
	size, err := reread(m, dir+"/memory.limit_in_bytes", ParseValue)
	if err != nil || dir != m.memory.Mount {
		return size, err
	}
	s, err := reread(m, dir+"/memory.stat", ParseStatV1)
	if err == nil && s.Above > 0 {
		size = min(size, s.Above)
	}
	return size, err
}

// finite tells a limit from the many ways to say that there is none: v1 shows the largest
// multiple of a page (9223372036854771712 with pages of 4 KiB), and some runtimes write
// absurd sizes. A limit far above the machine's memory can never be the one that binds.
func finite(size, total gate.Bytes) bool {
	const absurd = 16
	return size < 1<<62 && size/absurd <= total
}
