package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/wholefile"
	"github.com/plimsoll-project/plimsoll/ledger"
)

// doubt is why a state file is not taken over as it stands. Under each of them the host
// registers anew: no frame of the former life can open what this one does not know as closed.
type doubt string

const (
	believed     doubt = ""
	otherBoot    doubt = "it is of another boot of the machine"
	otherHost    doubt = "it is of another host"
	otherVersion doubt = "it is of another version of its form"
	empty        doubt = "it is empty"
	headless     doubt = "its first line does not say whose it is"
	damaged      doubt = "it is damaged: lines of it cannot be read"
)

// found is what was read of a state file.
type found struct {
	doubt   doubt
	head    header
	records []host.Record // what is taken over
	lines   int           // whole and good ones behind the header
	bad     int           // the others behind the header, or all of them
	first   int           // the number of the first bad line; the header's is 1
	torn    int           // bytes of a last line that nobody was answered on
	void    int           // open reservations among the good lines that are not taken over
	kept    string        // where the file is kept
}

// judge reads a file's text.
func judge(data []byte, want header) *found {
	f := &found{}
	head, rest, ok := readHeader(data)
	f.head = head
	switch {
	case len(data) == 0:
		f.doubt = empty
	case !ok:
		f.doubt, rest = headless, data
	case head.BootID != "" && head.BootID != want.BootID:
		f.doubt = otherBoot
	case head.Version > 0 && head.Version != stateVersion:
		f.doubt = otherVersion
	case head.Version <= 0 || head.BootID == "" || head.Host == "":
		f.doubt, rest = headless, data
	case head.Host != want.Host:
		f.doubt = otherHost
	}
	if f.doubt != believed {
		f.bad = bytes.Count(rest, []byte("\n"))
		if len(rest) > 0 && rest[len(rest)-1] != '\n' {
			f.bad++
		}
		return f
	}
	f.readRecords(rest)
	if f.bad > 0 {
		f.doubt, f.records = damaged, f.sure()
	}
	return f
}

// readRecords takes every whole line. Nothing is written after a torn line, so that one can only be
// the last; what else is no record was one once, and somebody may have been answered on it.
func (f *found) readRecords(data []byte) {
	for n := 2; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		var r host.Record
		switch {
		case whole && json.Unmarshal(line, &r) == nil && r.Kind != "":
			f.records = append(f.records, r)
			f.lines++
		case !whole && begun(line):
			f.torn = len(line)
		default:
			if f.bad++; f.first == 0 {
				f.first = n
			}
		}
		data = rest
	}
}

// begun says whether a text is the beginning of a line, as opposed to something else.
func begun(text []byte) bool {
	var first json.RawMessage
	err := json.NewDecoder(bytes.NewReader(text)).Decode(&first)
	return text[0] == '{' && (json.Valid(text) || errors.Is(err, io.ErrUnexpectedEOF))
}

// sure is what can be believed of a file of which lines are lost, whatever they said. An open
// reservation may have been redeemed by one of them, and is open no more. What runs is taken over
// (see stillRuns), but the next start of what ended is not: it may have had that already.
func (f *found) sure() (out []host.Record) {
	last := make(map[host.Name]int, len(f.records)) // name -> its last record
	for i := range f.records {
		last[f.records[i].Name()] = i
	}
	for i, r := range f.records {
		switch {
		case last[r.Name()] != i:
			continue
		case r.Kind == host.RecordReservation && r.State == ledger.Open && !r.Gone:
			f.void++
			continue
		case r.Kind == host.RecordSeen:
			continue // a replica has it as the former life's, and would count it twice
		}
		r.Ask.HoldOnExit = false
		out = append(out, r)
	}
	return out
}

// stillRuns leaves only those sandboxes of a damaged file whose own process is there. What says
// that another one is over, or was tracked, may be lost, and clearing that away would end what has
// the same name since. If this agent booted that, it is found out of gate.
func (f *found) stillRuns(startTime func(pid int) (uint64, error)) {
	if f.doubt != damaged {
		return
	}
	there := f.records[:0]
	for _, r := range f.records {
		if r.Kind == host.RecordSandbox && !r.Gone {
			at, err := startTime(r.Process.Pid)
			if err != nil || at != r.Process.Start {
				continue
			}
		}
		there = append(there, r)
	}
	f.records = there
}

// keepMost bounds what is kept of a state file: it is a few megabytes on the largest host.
const keepMost = 64 << 20

func keptPath(path string) string { return path + ".bad" }

// keep puts the file that is not believed where the next one does not replace it. A second name
// takes no room, so that it works on a full disk; where there are none it is a copy.
func (f *found) keep(path string, data []byte) error {
	if f.doubt == believed || f.doubt == otherBoot || len(data) == 0 {
		return nil
	}
	kept := keptPath(path)
	second := kept + ".new"
	os.Remove(second)
	err := os.Link(path, second)
	if err == nil {
		err = errors.Join(os.Chmod(second, 0o600), os.Rename(second, kept))
		os.Remove(second) // where both were one file already, that did nothing
	}
	if err != nil {
		err = wholefile.Write(kept, data[:min(len(data), keepMost)], 0o600, false)
	}
	if err != nil {
		return fmt.Errorf("the agent's state %s is not believed, since %s, and it could not be kept as %s: %w; it is left as it is, and the host boots nothing until there is room and permission, or it is moved away by hand",
			path, f.doubt, kept, err)
	}
	f.kept = kept
	return nil
}

// bound cuts what is kept to its size. It may share its room with the file itself until that is
// replaced, and a state that is cut short would be believed.
func (f *found) bound() error {
	if f.kept == "" {
		return nil
	}
	info, err := os.Stat(f.kept)
	if err == nil && info.Size() > keepMost {
		err = os.Truncate(f.kept, keepMost)
	}
	if err != nil {
		return fmt.Errorf("cut what is kept of the agent's former state to %d MiB: %w; remove %s when it is not wanted any more", keepMost>>20, err, f.kept)
	}
	return nil
}

// What a doubt means, and what helps.
const (
	allVoid = "the host registers anew, and what it had promised is void: whoever has such a ticket attempts again; what this agent booted runs on, " +
		"charged and found out of gate; what other booters had tracked is known to nobody any more"
	someVoid = "the host registers anew, and no reservation that was open is redeemed any more: whoever has such a ticket attempts again; what runs is taken up, " +
		"and is not started again in place; what only the lost lines knew runs on: out of gate if this agent booted it, else known to nobody"
	remedy = "plimsoll host show lists what runs unticketed: its caller ends it, or plimsoll reconcile; look at this machine for what other booters started " +
		"(lines of kind sandbox in the kept file name processes); do not put that file back"
)

// say tells the operator what became of the state.
func (f *found) say(log *slog.Logger) {
	if f.torn > 0 {
		log.Info("the last line of the agent's state is torn, as by a kill or a full disk: nobody was answered on it, and it is left out",
			"bytes", f.torn, "lines_taken", f.lines)
	}
	why := []any{"why", string(f.doubt), "lines_taken", f.lines, "lines_dropped", f.bad, "kept", f.kept}
	switch f.doubt {
	case otherBoot:
		log.Info("the agent's state is of another boot, as after each restart of the machine: nothing in it is true any more, and the host registers anew",
			"lines_dropped", f.bad)
	case otherVersion:
		log.Warn("the agent's state is not taken over", append(why, "version", f.head.Version, "reads_version", stateVersion,
			"means", allVoid, "remedy", remedy+"; drain a host before its agent goes to a version that cannot read its state")...)
	case otherHost:
		log.Warn("the agent's state is not taken over", append(why, "of", f.head.Host, "means", allVoid,
			"remedy", remedy+"; give each host a data directory of its own, and drain it before it gets another name")...)
	case headless, empty:
		log.Error("the agent's state is not taken over", append(why, "means", allVoid, "remedy", remedy+"; look at the disk, and for what else writes there")...)
	case damaged:
		log.Error("the agent's state is taken over only in part", append(why, "first_bad_line", f.first, "reservations_void", f.void,
			"means", someVoid, "remedy", remedy+"; look at the disk, and for what else writes there")...)
	}
}
