package hostmem

import (
	"fmt"
	"math"
	"time"
)

// ParseKills reads how often the kernel has killed for want of memory out of /proc/vmstat:
//
//	pgsteal_kswapd 0
//	oom_kill 3
//
// Before Linux 4.13 there is no such line, and ok is false.
func ParseKills(text []byte) (n int64, ok bool) {
	eachLine(text, func(key, rest []byte) {
		if string(key) == "oom_kill" {
			n, ok = number(rest)
		}
	})
	return n, ok
}

// Kills says how often the kernel has killed for want of memory since this machine started, but
// for the times that a cgroup below parent met a limit of its own. On cgroup v1 those cannot be
// told apart, and count. ok is false where the kernel does not say.
func (m *Machine) Kills(parent string) (n int64, ok bool, err error) {
	type count struct {
		n  int64
		ok bool
	}
	all, err := read(m.proc+"/vmstat", infallible(func(text []byte) (c count) {
		c.n, c.ok = ParseKills(text)
		return c
	}))
	switch {
	case isGone(err):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("look for out-of-memory kills of the machine: %w", err)
	case !all.ok || m.memory.Version != 2:
		return all.n, all.ok, nil
	}
	dir := m.memory.Dir(parent)
	met, err := read(dir+"/memory.events", infallible(ParseEvents))
	if isGone(err) {
		return all.n, true, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("look for out-of-memory kills below %s: %w", parent, err)
	}
	// What parent's own limit killed is the host's: only what happened below it is not.
	local, err := read(dir+"/memory.events.local", infallible(ParseEvents))
	if err != nil {
		local = OOM{}
	}
	return max(all.n-max(met.Met-local.Met, 0), 0), true, nil
}

// ParseRefaults reads how many pages of files were read again soon after they had been dropped for
// want of memory, out of /proc/vmstat or a cgroup's memory.stat:
//
//	workingset_refault_anon 0
//	workingset_refault_file 9127
//
// Before Linux 5.9 there was workingset_refault alone, which counted those of files; before 3.15
// none, and ok is false.
func ParseRefaults(text []byte) (n int64, ok bool) {
	eachLine(text, func(key, rest []byte) {
		switch string(key) {
		case "workingset_refault_file":
			n, ok = number(rest)
		case "workingset_refault":
			if !ok {
				n, ok = number(rest)
			}
		}
	})
	return min(n, mostCounted), ok
}

// mostCounted is beyond all that is ever counted, so that no sum can wrap.
const mostCounted = 1 << 53

// FileRefaults are those of the whole machine since it started. It says false where the kernel
// does not count them.
func (m *Machine) FileRefaults() (n int64, ok bool) {
	_, err := read(m.proc+"/vmstat", infallible(func(text []byte) int64 {
		n, ok = ParseRefaults(text)
		return n
	}))
	return n, ok && err == nil
}

// ParseCPU reads how long a cgroup's processes have worked out of its cpu.stat:
//
//	usage_usec 1482135
//	user_usec 1370054
func ParseCPU(text []byte) (used time.Duration) {
	eachLine(text, func(key, rest []byte) {
		if string(key) == "usage_usec" {
			if n, ok := number(rest); ok {
				used = time.Duration(min(n, math.MaxInt64/1000)) * time.Microsecond
			}
		}
	})
	return used
}

// cpu is what a cgroup has worked; below zero where nobody counts it.
func (m *Machine) cpu(cgroup string) time.Duration {
	if !m.unified.Mounted() {
		return -1
	}
	used, err := perhaps(m, m.unified.Dir(cgroup)+"/cpu.stat", infallible(ParseCPU))
	if err != nil {
		return -1
	}
	return used
}
