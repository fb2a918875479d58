package hostmem

import "fmt"

// OOM is what the out-of-memory killer did in a cgroup since it was made.
type OOM struct {
	Kills    int64 // processes killed in it, for want of memory under whatever limit
	OwnLimit bool  // they were for its own limit; without that the host ran out, or what is above it
	Met      int64 // how often its own limit left no way out; 0 where that is not counted
}

// ParseEvents reads a cgroup v2 memory.events:
//
//	low 0
//	high 0
//	max 12
//	oom 1
//	oom_kill 1
//	oom_group_kill 0
//
// oom counts the times that the cgroup's own limit left no way out; oom_kill counts the
// victims, the machine's included. Each such time has one victim, or the whole group: more
// victims than that are the machine's, whatever happened before.
func ParseEvents(text []byte) OOM {
	var o OOM
	var groups int64
	eachLine(text, func(key, rest []byte) {
		n, _ := number(rest)
		switch string(key) {
		case "oom":
			o.Met = n
		case "oom_kill":
			o.Kills = n
		case "oom_group_kill":
			groups = n
		}
	})
	o.OwnLimit = o.Met > 0 && (o.Kills <= o.Met || groups > 0)
	return o
}

// ParseOOMControl reads a cgroup v1 memory.oom_control, whose last line is missing before
// Linux 4.13:
//
//	oom_kill_disable 0
//	under_oom 0
//	oom_kill 1
func ParseOOMControl(text []byte) OOM {
	return OOM{Kills: ParseEvents(text).Kills}
}

// OOM reads what the out-of-memory killer did in a cgroup.
func (m *Machine) OOM(cgroup string) (OOM, error) {
	dir := m.memory.Dir(cgroup)
	switch m.memory.Version {
	case 0:
		return OOM{}, nil
	case 2:
		return oomOf(cgroup, dir+"/memory.events", ParseEvents)
	}
	o, err := oomOf(cgroup, dir+"/memory.oom_control", ParseOOMControl)
	if err != nil {
		return OOM{}, err
	}
	failed, err := read(dir+"/memory.failcnt", ParseValue)
	o.OwnLimit = failed > 0
	return o, err
}

func oomOf(cgroup, file string, parse func([]byte) OOM) (OOM, error) {
	o, err := read(file, infallible(parse))
	if err != nil {
		return OOM{}, fmt.Errorf("look for out-of-memory kills in cgroup %s: %w", cgroup, err)
	}
	return o, nil
}
