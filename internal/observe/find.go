package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// find returns what the rules call sandboxes. What vanishes while it is looked at is left out;
// what cannot be read is named in a note, for it runs all the same.
func (o *Observer) find() (found []sandbox, notes []string, err error) {
	found, notes, err = o.cgroups()
	if err != nil || o.rules.Match == nil {
		return found, notes, err
	}
	processes, more, err := o.processes()
	return append(found, processes...), append(notes, more...), err
}

// cgroups finds each child of the parent.
func (o *Observer) cgroups() (found []sandbox, notes []string, err error) {
	if o.rules.Parent == "" {
		return nil, nil, nil
	}
	names, err := o.machine.Children(o.rules.Parent)
	if err != nil {
		return nil, nil, err
	}
	if len(names) == 0 {
		notes = append(notes, fmt.Sprintf("cgroup %s is not there, or has no children", o.rules.Parent))
	}
	for _, name := range names {
		s := sandbox{id: name, kind: "cgroup"}
		at := path.Join("/", o.rules.Parent, name)
		s.held, err = o.machine.ResidentCgroup(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		var args []string
		if pids, err := o.machine.Members(at); err == nil && len(pids) > 0 {
			s.pid = pids[0]
			args, _ = o.machine.CommandLine(s.pid)
		}
		s.command = shown(args)
		if size, ok := o.machine.SizeOf(at); ok {
			s.configured, s.from = size, "memory.max"
		} else {
			s.configured, s.from = o.sizeOf(s.pid, args)
		}
		s.stateful = o.keepsState(name, args)
		found = append(found, s)
	}
	return found, notes, nil
}

// processes finds the topmost process of each tree that matches, where no cgroup that was
// found has it already. The observer itself is none, though its command line holds the very
// pattern, and neither is whoever started it.
func (o *Observer) processes() (found []sandbox, notes []string, err error) {
	table, err := o.machine.Processes()
	if err != nil {
		return nil, nil, err
	}
	matches := map[int][]string{} // pid -> its command line
	for _, pid := range table.PIDs() {
		if args, ok := o.matches(pid, table); ok {
			matches[pid] = args
		}
	}
	for _, pid := range table.PIDs() {
		args, ok := matches[pid]
		if !ok || below(table, pid, func(p int) bool { return matches[p] != nil }) {
			continue
		}
		s := sandbox{id: "pid-" + strconv.Itoa(pid), kind: "process", pid: pid, command: shown(args)}
		s.held, err = table.Resident(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		s.configured, s.from = o.sizeOf(pid, args)
		s.stateful = o.keepsState(s.id, args)
		found = append(found, s)
	}
	return found, notes, nil
}

// matches says whether a process is one of a sandbox.
func (o *Observer) matches(pid int, table *hostmem.Processes) ([]string, bool) {
	self := os.Getpid()
	if pid == self || below(table, self, func(p int) bool { return p == pid }) {
		return nil, false
	}
	args, err := o.machine.CommandLine(pid)
	if err != nil || len(args) == 0 {
		return nil, false
	}
	if !o.rules.Match.MatchString(strings.Join(args, " ")) && !o.rules.Match.MatchString(o.machine.Executable(pid)) {
		return nil, false
	}
	if o.rules.Parent != "" {
		at, err := o.machine.CgroupOf(pid)
		if err == nil && hostmem.Below(at, o.rules.Parent) {
			return nil, false // it was found with its cgroup
		}
	}
	return args, true
}

// below says whether an ancestor of a process is one that is looked for.
func below(table *hostmem.Processes, pid int, is func(int) bool) bool {
	for range 128 { // no tree is deeper, and one that is read while it moves may loop
		p, ok := table.Lookup(pid)
		if !ok || p.Parent <= 0 {
			return false
		}
		if is(p.Parent) {
			return true
		}
		pid = p.Parent
	}
	return false
}

// qemuSize is qemu's and kvmtool's -m, in MiB where no unit is said.
var qemuSize = regexp.MustCompile(`(?:^| )(?:-m|--mem|--memory)[ =](?:size=)?([0-9]+[KMGTkmgt]?)(?:i?[Bb])?(?:[, ]|$)`)

// sizeOf reads a configured size off a command line, or from the file that firecracker is
// started with; else it is the default, where one was stated.
func (o *Observer) sizeOf(pid int, args []string) (gate.Bytes, string) {
	pattern := o.rules.Size
	if pattern == nil {
		pattern = qemuSize
	}
	if m := pattern.FindStringSubmatch(strings.Join(args, " ")); len(m) > 1 {
		if size, ok := parseSize(m[1]); ok {
			return size, "command line"
		}
	}
	if size, ok := o.fileSize(pid, args); ok {
		return size, "config file"
	}
	if o.rules.Default > 0 {
		return o.rules.Default, "default"
	}
	return 0, ""
}

const maxConfigFile = 1 << 20

// fileSize reads machine-config.mem_size_mib of firecracker's --config-file.
func (o *Observer) fileSize(pid int, args []string) (gate.Bytes, bool) {
	for i, arg := range args {
		name, joined := strings.CutPrefix(arg, "--config-file=")
		if arg == "--config-file" && i+1 < len(args) {
			name, joined = args[i+1], true
		}
		if !joined {
			continue
		}
		data, err := o.machine.FileOf(pid, name, maxConfigFile)
		if err != nil {
			return 0, false
		}
		var file struct {
			Machine struct {
				Size int64 `json:"mem_size_mib"`
			} `json:"machine-config"`
		}
		err = json.Unmarshal(data, &file)
		return gate.FromMiB(file.Machine.Size), err == nil && file.Machine.Size > 0 && file.Machine.Size < maxSizeMB
	}
	return 0, false
}

const maxSizeMB = 1 << 30 // 1 PiB

var sizeUnits = map[string]gate.Bytes{"": gate.MiB, "K": gate.KiB, "M": gate.MiB, "G": gate.GiB, "T": 1024 * gate.GiB}

// parseSize reads 4096, 4096M or 4G: MiB where no unit is said.
func parseSize(text string) (gate.Bytes, bool) {
	digits := strings.TrimRight(text, "KMGTkmgtiBb")
	unit := strings.ToUpper(strings.TrimPrefix(text, digits))
	if len(unit) > 1 {
		unit = unit[:1]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	each, known := sizeUnits[unit]
	if err != nil || !known || n <= 0 || n > int64(gate.PiB/each) {
		return 0, false
	}
	return gate.Bytes(n) * each, true
}

func (o *Observer) keepsState(name string, args []string) bool {
	return o.rules.Stateful != nil && (o.rules.Stateful.MatchString(name) || o.rules.Stateful.MatchString(strings.Join(args, " ")))
}

// shown is a command line for people: no more of it than its program and what it is called
// by, for arguments may hold secrets.
func shown(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return path.Base(args[0])
}
