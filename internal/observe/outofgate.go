package observe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// Sighting is what the rules call a sandbox, and nobody knows.
type Sighting struct {
	ID       string // its cgroup's name, or pid- and its first process
	Cgroup   string // "" for a process tree
	PIDs     []int
	Start    uint64        // of the first of them, by the kernel's count
	Started  time.Duration // after boot, the eldest of them
	Stateful bool
	Resident gate.Bytes
}

// Unknown finds what the rules call sandboxes, and known says is none of the known ones: each by
// its cgroup, or by its processes. What belongs to the observer itself is never found.
func (o *Observer) Unknown(known func(cgroup string, pids []int) bool) ([]Sighting, error) {
	all, err := o.unknownCgroups(known)
	if err != nil || o.rules.Match == nil {
		return all, err
	}
	trees, err := o.unknownTrees(known)
	return append(all, trees...), err
}

func (o *Observer) unknownCgroups(known func(string, []int) bool) (all []Sighting, err error) {
	if o.rules.Parent == "" {
		return nil, nil
	}
	names, err := o.machine.Children(o.rules.Parent)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		at := path.Join("/", o.rules.Parent, name)
		if known(at, nil) {
			continue
		}
		pids, err := o.machine.Members(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if len(pids) == 0 || slices.Contains(pids, os.Getpid()) || known(at, pids) {
			continue
		}
		held, err := o.machine.ResidentCgroup(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("measure what runs out of gate: %w", err)
		}
		args, _ := o.machine.CommandLine(pids[0])
		s := Sighting{ID: name, Cgroup: at, PIDs: pids, Resident: held.Bytes, Stateful: o.keepsState(name, args)}
		o.age(&s)
		all = append(all, s)
	}
	return all, nil
}

func (o *Observer) unknownTrees(known func(string, []int) bool) (all []Sighting, err error) {
	found, _, err := o.processes()
	if err != nil {
		return nil, err
	}
	table, err := o.machine.Processes()
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		at, err := o.machine.CgroupOf(f.pid)
		ours := func(pid int) bool { return known("", []int{pid}) }
		if err != nil || known(at, []int{f.pid}) || below(table, f.pid, ours) {
			continue
		}
		s := Sighting{ID: f.id, PIDs: []int{f.pid}, Resident: f.held.Bytes, Stateful: f.stateful}
		o.age(&s)
		all = append(all, s)
	}
	return all, nil
}

// age says when it began.
func (o *Observer) age(s *Sighting) {
	for i, pid := range s.PIDs {
		start, err := o.machine.StartTime(pid)
		if err != nil {
			continue
		}
		if i == 0 {
			s.Start = start
		}
		if at := time.Duration(start) * hostmem.Tick; s.Started == 0 || at < s.Started {
			s.Started = at
		}
	}
}
