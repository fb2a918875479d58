package hostmem

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Status is the memory of one process.
type Status struct {
	Anon  gate.Bytes
	File  gate.Bytes
	Shmem gate.Bytes
	Swap  gate.Bytes
	Huge  gate.Bytes // of all sizes; in none of the others
}

// ParseStatus reads /proc/<pid>/status:
//
//	VmRSS:	    1700 kB
//	RssAnon:	     112 kB
//	RssFile:	    1588 kB
//	RssShmem:	       0 kB
//	VmSwap:	       0 kB
//	HugetlbPages:	       0 kB
//
// A kernel thread and a zombie have none of these lines, and hold nothing. Before Linux
// 4.5 there was VmRSS alone, which then counts as anonymous as a whole.
func ParseStatus(text []byte) Status {
	var s Status
	var rss gate.Bytes
	split := false
	eachLine(text, func(key, rest []byte) {
		switch string(key) {
		case "VmRSS:":
			setBytes(&rss, rest, gate.KiB)
		case "RssAnon:":
			split = setBytes(&s.Anon, rest, gate.KiB)
		case "RssFile:":
			setBytes(&s.File, rest, gate.KiB)
		case "RssShmem:":
			setBytes(&s.Shmem, rest, gate.KiB)
		case "VmSwap:":
			setBytes(&s.Swap, rest, gate.KiB)
		case "HugetlbPages:":
			setBytes(&s.Huge, rest, gate.KiB)
		}
	})
	if !split {
		s.Anon = rss
	}
	return s
}

// Proc is one process of the table.
type Proc struct {
	PID       int
	Parent    int
	Session   int
	State     byte   // 'Z' for one that is dead and not yet reaped
	StartTime uint64 // ticks after boot; with the pid it names a process for good
	Worked    int64  // ticks, in user and kernel mode
}

var errShortStat = errors.New("it is cut short or not the kernel's own file")

// ParseStat reads /proc/<pid>/stat:
//
//	4242 (tmux: (server)) S 1 4242 4242 0 -1 4194560 ... 0 20 0 1 0 8675309 ...
//
// The second field is the command in parentheses and may hold anything, spaces and
// parentheses included, so what follows is counted from the last parenthesis on: state 3,
// parent 4, session 6, work 14 and 15, start time 22.
func ParseStat(text []byte) (Proc, error) {
	end := bytes.LastIndexByte(text, ')')
	pid, ok := number(text)
	if end < 0 || !ok {
		return Proc{}, errShortStat
	}
	p := Proc{PID: clampInt(pid)}
	rest := text[end+1:]
	for field := 3; field <= 22; field++ {
		var word []byte
		if word, rest = cutWord(rest); len(word) == 0 {
			return Proc{}, errShortStat
		}
		n, _ := number(word)
		switch field {
		case 3:
			p.State = word[0]
		case 4:
			p.Parent = clampInt(n)
		case 6:
			p.Session = clampInt(n)
		case 14, 15:
			p.Worked += min(n, 1<<38)
		case 22:
			p.StartTime = uint64(n)
		}
	}
	return p, nil
}

// clampInt keeps absurd pids absurd instead of wrapping them into real ones.
func clampInt(n int64) int { return int(min(n, math.MaxInt32)) }

// Process reads one process. One that is gone answers with fs.ErrNotExist.
func (m *Machine) Process(pid int) (Proc, error) {
	p, err := read(m.pidFile(pid, "/stat"), ParseStat)
	if err != nil {
		return Proc{}, fmt.Errorf("look up process %d: %w", pid, err)
	}
	return p, nil
}

// StartTime returns when a process started, in clock ticks after boot. Pids are used
// again; a pid with its start time, within one boot, is not.
func (m *Machine) StartTime(pid int) (uint64, error) {
	p, err := m.Process(pid)
	return p.StartTime, err
}

func (m *Machine) pidFile(pid int, name string) string {
	return m.proc + "/" + strconv.Itoa(pid) + name
}
