package hostmem

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Children lists the cgroups right below one, by name. One that is not there has none.
func (m *Machine) Children(cgroup string) ([]string, error) {
	if !m.memory.Mounted() {
		return nil, nil
	}
	entries, err := os.ReadDir(m.memory.Dir(cgroup))
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the cgroups below %s: %w", cgroup, err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Members lists the pids in a cgroup and all below it.
func (m *Machine) Members(cgroup string) ([]int, error) {
	pids, err := read(m.memory.Dir(cgroup)+"/cgroup.procs", infallible(parsePids))
	if err != nil {
		return nil, fmt.Errorf("list the processes of cgroup %s: %w", cgroup, err)
	}
	below, err := m.Children(cgroup)
	for _, name := range below {
		more, err := m.Members(path.Join(cgroup, name))
		if err == nil { // one that is gone meanwhile has nobody
			pids = append(pids, more...)
		}
	}
	return pids, err
}

func parsePids(text []byte) (pids []int) {
	for line := range bytes.Lines(text) {
		if n, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}

// SizeOf is a cgroup's own memory limit; ok is false where it has none that could bind.
func (m *Machine) SizeOf(cgroup string) (size gate.Bytes, ok bool) {
	info, err := m.Meminfo()
	if err != nil || !m.memory.Mounted() {
		return 0, false
	}
	size, err = m.max(m.memory.Dir(cgroup))
	return size, err == nil && finite(size, info.Total)
}

// CommandLine is a process's, as it was started or has since written it. A kernel thread and
// a zombie have none.
func (m *Machine) CommandLine(pid int) ([]string, error) {
	args, err := read(m.pidFile(pid, "/cmdline"), infallible(parseCommandLine))
	if err != nil {
		return nil, fmt.Errorf("read the command line of process %d: %w", pid, err)
	}
	return args, nil
}

func parseCommandLine(text []byte) []string {
	text = bytes.TrimRight(text, "\x00")
	if len(text) == 0 {
		return nil
	}
	var args []string
	for arg := range bytes.SplitSeq(text, []byte{0}) {
		args = append(args, string(arg))
	}
	return args
}

// Executable is the file that a process runs; "" where nobody may know.
func (m *Machine) Executable(pid int) string {
	file, err := os.Readlink(m.pidFile(pid, "/exe"))
	if err != nil {
		return ""
	}
	return file
}

// FileOf reads a file as a process sees it, whatever root and directory it has.
func (m *Machine) FileOf(pid int, name string, most int64) ([]byte, error) {
	at := m.pidFile(pid, "/cwd/"+name)
	if path.IsAbs(name) {
		at = m.pidFile(pid, "/root"+name)
	}
	info, err := os.Stat(at)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most { // a pipe would hold us up
		return nil, fmt.Errorf("%s is no file of at most %d bytes", name, most)
	}
	return os.ReadFile(at)
}

// CgroupOf is where a process stands in Memory(), as the kernel names it.
func (m *Machine) CgroupOf(pid int) (string, error) {
	groups, err := read(m.pidFile(pid, "/cgroup"), infallible(ParseCgroup))
	if err != nil {
		return "", err
	}
	controller := ""
	if m.memory.Version == 1 {
		controller = "memory"
	}
	return pathIn(groups, controller), nil
}

// PIDs lists the processes of the table, in order.
func (t *Processes) PIDs() []int {
	pids := make([]int, 0, len(t.byPID))
	for pid := range t.byPID {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}
