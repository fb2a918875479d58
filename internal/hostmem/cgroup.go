package hostmem

import (
	"bytes"
	"errors"
	"io/fs"
	"math"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Stat is what a cgroup and everything below it hold.
type Stat struct {
	Anon         gate.Bytes
	Shmem        gate.Bytes
	Swap         gate.Bytes // v1 only; v2 has a file of its own
	SwapCached   gate.Bytes // v2 only: swapped out and back in memory, counted in both
	ActiveFile   gate.Bytes
	InactiveFile gate.Bytes
	Dirty        gate.Bytes // file pages that must be written before they can go
	Writeback    gate.Bytes
	Refaults     int64      // pages of files that were read again soon after they were dropped; 0 where nobody counts them
	Above        gate.Bytes // v1 only: least limit of the cgroup and all above it, seen or not
}

// File is all file cache that the kernel could take back, if need be after writing it.
func (s Stat) File() gate.Bytes { return s.ActiveFile.Add(s.InactiveFile) }

// CleanFile is the file cache that the kernel can take back at once.
func (s Stat) CleanFile() gate.Bytes {
	return s.File().Sub(s.Dirty).Sub(s.Writeback).Positive()
}

var errNoAnon = errors.New("memory.stat counts no anonymous memory: is the memory controller on for this cgroup?")

// ParseStatV2 reads a cgroup v2 memory.stat, which counts the whole subtree:
//
//	anon 1531904
//	file 141930496
//	shmem 9084928
//	file_dirty 8192
//	file_writeback 0
//	swapcached 0
//	inactive_file 12288
//	active_file 159744
func ParseStatV2(text []byte) (Stat, error) {
	var s Stat
	seen, dirty, writeback := false, false, false
	eachLine(text, func(key, rest []byte) {
		switch string(key) {
		case "anon":
			seen = setBytes(&s.Anon, rest, 1)
		case "shmem":
			setBytes(&s.Shmem, rest, 1)
		case "swapcached":
			setBytes(&s.SwapCached, rest, 1)
		case "active_file":
			setBytes(&s.ActiveFile, rest, 1)
		case "inactive_file":
			setBytes(&s.InactiveFile, rest, 1)
		case "file_dirty":
			dirty = setBytes(&s.Dirty, rest, 1)
		case "file_writeback":
			writeback = setBytes(&s.Writeback, rest, 1)
		case "workingset_refault_file":
			n, _ := number(rest)
			s.Refaults = min(n, mostCounted)
		}
	})
	if !seen {
		return Stat{}, errNoAnon
	}
	return s.unlessDirty(dirty && writeback), nil
}

// unlessDirty takes all file cache for dirty where the kernel does not tell what is.
func (s Stat) unlessDirty(told bool) Stat {
	if !told {
		s.Dirty = s.File()
	}
	return s
}

// ParseStatV1 reads a cgroup v1 memory.stat. Its plain fields count the cgroup alone and
// come first, the total_ ones the subtree:
//
//	cache 9256960
//	rss 6557696
//	hierarchical_memory_limit 9223372036854771712
//	total_cache 141930496
//	total_rss 11567104
//	total_shmem 9084928
//	total_dirty 258048
//	total_writeback 0
//	total_swap 0
//	total_inactive_file 82063360
//	total_active_file 50782208
//
// total_rss is anonymous memory with its swap cache.
func ParseStatV1(text []byte) (Stat, error) {
	total, tree := statV1(text, "total_")
	if !tree {
		var own bool
		if total, own = statV1(text, ""); !own {
			return Stat{}, errNoAnon
		}
	}
	return total, nil
}

func statV1(text []byte, prefix string) (s Stat, seen bool) {
	var cache gate.Bytes
	shmem, dirty, writeback := false, false, false
	eachLine(text, func(key, rest []byte) {
		if string(key) == "hierarchical_memory_limit" {
			setBytes(&s.Above, rest, 1)
			return
		}
		name, ok := bytes.CutPrefix(key, []byte(prefix))
		if !ok {
			return
		}
		switch string(name) {
		case "rss":
			seen = setBytes(&s.Anon, rest, 1)
		case "cache":
			setBytes(&cache, rest, 1)
		case "shmem":
			shmem = setBytes(&s.Shmem, rest, 1)
		case "swap":
			setBytes(&s.Swap, rest, 1)
		case "active_file":
			setBytes(&s.ActiveFile, rest, 1)
		case "inactive_file":
			setBytes(&s.InactiveFile, rest, 1)
		case "dirty":
			dirty = setBytes(&s.Dirty, rest, 1)
		case "writeback":
			writeback = setBytes(&s.Writeback, rest, 1)
		case "workingset_refault_file":
			n, _ := number(rest)
			s.Refaults = min(n, mostCounted)
		}
	})
	if !shmem { // before Linux 4.11: cache that is on no file list is tmpfs or locked, and stays
		s.Shmem = cache.Sub(s.File()).Positive()
	}
	return s.unlessDirty(dirty && writeback), seen
}

// ParseValue reads a file of one number: memory.current, memory.usage_in_bytes,
// memory.limit_in_bytes, or memory.max, where "max" stands for none and is the largest
// number there is.
func ParseValue(text []byte) (gate.Bytes, error) {
	text = bytes.TrimSpace(text)
	if string(text) == "max" {
		return math.MaxInt64, nil
	}
	n, ok := number(text)
	if !ok {
		return 0, errors.New("there is no number in it: is it the kernel's own file?")
	}
	return gate.Bytes(n), nil
}

// usage is what counts against a cgroup's limit.
func (m *Machine) usage(dir string) (gate.Bytes, error) {
	file, parse := "/memory.current", ParseStatV2
	if m.memory.Version == 1 {
		file, parse = "/memory.usage_in_bytes", ParseStatV1
	}
	used, err := reread(m, dir+file, ParseValue)
	if err != nil {
		return 0, err
	}
	s, err := reread(m, dir+"/memory.stat", parse)
	if err != nil {
		return 0, err
	}
	swapped, err := m.swapped(dir, s)
	return used.Sub(s.CleanFile()).Positive().Add(swapped), err
}

// swapped is what a cgroup has swapped out. A v2 kernel without swap has no file for it.
func (m *Machine) swapped(dir string, s Stat) (gate.Bytes, error) {
	if m.memory.Version == 1 {
		return s.Swap, nil
	}
	n, err := reread(m, dir+"/memory.swap.current", ParseValue)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return n.Sub(s.SwapCached).Positive(), err
}

func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
