package hostmem

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Processes is the process table at one moment: read once a sample, then asked for many
// trees. It never changes, and may be used from any goroutine.
type Processes struct {
	machine  *Machine
	byPID    map[int]Proc  // pid -> process
	children map[int][]int // parent pid -> pids
	sessions map[int][]int // session -> pids
}

// Processes lists every process. Those that end meanwhile are left out.
func (m *Machine) Processes() (*Processes, error) {
	dir, err := os.Open(m.proc)
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w (is /proc mounted?)", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	t := &Processes{m, make(map[int]Proc, len(names)), map[int][]int{}, map[int][]int{}}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := m.Process(pid)
		switch {
		case err == nil:
			t.add(p)
		case !isGone(err):
			return nil, err
		}
	}
	return t, nil
}

func (t *Processes) add(p Proc) {
	t.byPID[p.PID] = p
	t.children[p.Parent] = append(t.children[p.Parent], p.PID)
	t.sessions[p.Session] = append(t.sessions[p.Session], p.PID)
}

// Lookup returns a process of the table.
func (t *Processes) Lookup(pid int) (Proc, bool) {
	p, ok := t.byPID[pid]
	return p, ok
}

// Has says whether a process of the table is still the one that was meant.
func (t *Processes) Has(pid int, startTime uint64) bool {
	p, ok := t.byPID[pid]
	return ok && p.StartTime == startTime
}

// Tree returns a process with all its descendants and, where it leads (or led) a session,
// that session with all of its descendants. One that opened a session of
// its own and whose parent then ended cannot be found this way: only a cgroup holds it.
func (t *Processes) Tree(pid int) []Proc {
	if pid <= 0 { // the kernel's own, and every process with them
		return nil
	}
	var tree []Proc
	seen := map[int]bool{}
	todo := append([]int{pid}, t.sessions[pid]...)
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[next] {
			continue
		}
		seen[next] = true
		todo = append(todo, t.children[next]...)
		if p, ok := t.byPID[next]; ok {
			tree = append(tree, p)
		}
	}
	return tree
}

// Tick is what the kernel tells processes' work and start times in, on every machine that Go runs on.
const Tick = time.Second / 100

// Resident measures the tree of a process. Memory that several of its processes share is
// counted once for each: too much, never too little. A tree of which nothing is left
// answers with fs.ErrNotExist.
func (t *Processes) Resident(pid int) (Resident, error) {
	var sum Resident
	err := fmt.Errorf("measure the process tree of %d: %w", pid, os.ErrNotExist)
	for _, p := range t.Tree(pid) {
		r, rerr := t.machine.ResidentProcess(p.PID)
		switch {
		case rerr == nil:
			r.CPU = time.Duration(p.Worked) * Tick
			sum, err = sum.Add(r), nil
		case !isGone(rerr):
			return Resident{}, rerr
		}
	}
	return sum, err
}
