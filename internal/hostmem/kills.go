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
