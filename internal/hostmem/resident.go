package hostmem

import (
	"fmt"
	"os"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Resident is what one sandbox holds.
type Resident struct {
	Bytes     gate.Bytes    // anonymous and shared memory, with what of it was swapped out
	Swapped   gate.Bytes    // the part of Bytes that was swapped out
	FileCache gate.Bytes    // page cache charged to it; not in Bytes, as the kernel can drop it
	Refaults  int64         // pages of files that it read again soon after they were dropped, so far
	CPU       time.Duration // that it has worked so far; below zero where nobody counts it
}

// Add returns the sum of both.
func (r Resident) Add(o Resident) Resident {
	if r.CPU < 0 || o.CPU < 0 {
		r.CPU, o.CPU = -1, 0
	}
	return Resident{
		Bytes:     r.Bytes.Add(o.Bytes),
		Swapped:   r.Swapped.Add(o.Swapped),
		FileCache: r.FileCache.Add(o.FileCache),
		Refaults:  r.Refaults + o.Refaults,
		CPU:       r.CPU + o.CPU,
	}
}

// ResidentCgroup measures a sandbox that has a cgroup of its own. A cgroup that is gone
// answers with fs.ErrNotExist.
func (m *Machine) ResidentCgroup(cgroup string) (Resident, error) {
	if !m.memory.Mounted() {
		return Resident{}, fmt.Errorf("measure cgroup %s: this machine has no memory controller: track the sandbox by its pid", cgroup)
	}
	dir, parse := m.memory.Dir(cgroup), ParseStatV2
	if m.memory.Version == 1 {
		parse = ParseStatV1
	}
	s, err := reread(m, dir+"/memory.stat", parse)
	if err != nil {
		return Resident{}, fmt.Errorf("measure cgroup %s: %w", cgroup, err)
	}
	swapped, err := m.swapped(dir, s)
	if err != nil {
		return Resident{}, fmt.Errorf("measure the swap of cgroup %s: %w", cgroup, err)
	}
	return Resident{Bytes: s.Anon.Add(s.Shmem).Add(swapped), Swapped: swapped, FileCache: s.File(), Refaults: s.Refaults, CPU: m.cpu(cgroup)}, nil
}

// ResidentProcess measures one process alone, such as a bare VMM. Its file mappings are
// page cache that others may share, and are not told apart here.
func (m *Machine) ResidentProcess(pid int) (Resident, error) {
	s, err := reread(m, m.pidFile(pid, "/status"), infallible(ParseStatus))
	if err != nil {
		return Resident{}, fmt.Errorf("measure process %d: %w", pid, err)
	}
	if s == (Status{}) {
		s = m.threadStatus(pid)
	}
	return Resident{Bytes: s.Anon.Add(s.Shmem).Add(s.Swap), Swapped: s.Swap, FileCache: s.File}, nil
}

// threadStatus is for a process whose main thread has ended while others run on: its own
// status then shows no memory, as a zombie's does, and theirs does. Else a sandbox could hide
// what it holds.
func (m *Machine) threadStatus(pid int) Status {
	dir := m.pidFile(pid, "/task")
	threads, _ := os.ReadDir(dir) // gone meanwhile: nothing is held
	for _, t := range threads {
		s, err := read(dir+"/"+t.Name()+"/status", infallible(ParseStatus))
		if err == nil && s != (Status{}) {
			return s
		}
	}
	return Status{}
}

// ResidentTree measures one process tree. To measure several, take one Processes and ask
// it for each: listing the processes costs far more than any one tree.
func (m *Machine) ResidentTree(pid int) (Resident, error) {
	t, err := m.Processes()
	if err != nil {
		return Resident{}, err
	}
	return t.Resident(pid)
}
