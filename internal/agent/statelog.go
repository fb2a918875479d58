package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/plimsoll-project/plimsoll/host"
)

// stateLog is the agent's memory of itself: a header, then one record a line, a later one
// of the same name replacing the former. It is not synced: it must survive the agent, and
// after a crash of the machine nothing that it could say is true any more. The header's
// boot id says so.
type stateLog struct {
	path  string
	head  header
	file  *os.File
	live  map[host.Name][]byte // name -> its last line
	lines int                  // in the file, live or not
	torn  bool                 // the last append failed half-way: rewrite before appending
}

// header is the first line.
type header struct {
	Version     int    `json:"version"`
	Host        string `json:"host"`
	BootID      string `json:"boot_id"`
	Incarnation int64  `json:"incarnation"`
}

const (
	stateVersion = 1
	// compactAt is how many dead lines are kept before the log is rewritten.
	compactAt = 4096
)

// openState reads the log of an earlier life on this boot. fresh is true when there is
// none to be trusted: no file, another host's, another boot's, another version's, or one
// whose header is torn; the caller then registers anew.
func openState(path string, want header, now host.Instant) (l *stateLog, records []host.Record, fresh bool, err error) {
	l = &stateLog{path: path, head: want, live: map[host.Name][]byte{}}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, false, fmt.Errorf("read the agent's state: %w; it must be readable by the user who runs the agent", err)
	}
	head, rest, ok := readHeader(data)
	if !ok || head.Version != stateVersion || head.Host != want.Host || head.BootID != want.BootID {
		return l, nil, true, nil
	}
	l.head = head
	for _, r := range readRecords(rest) {
		line, err := json.Marshal(r)
		if err != nil {
			return nil, nil, false, err
		}
		l.live[r.Name()] = line
		if r.Expired(now) {
			delete(l.live, r.Name())
		}
	}
	for name := range l.live {
		var r host.Record
		if json.Unmarshal(l.live[name], &r) == nil {
			records = append(records, r)
		}
	}
	return l, records, false, nil
}

func readHeader(data []byte) (h header, rest []byte, ok bool) {
	line, rest, found := bytes.Cut(data, []byte("\n"))
	return h, rest, found && json.Unmarshal(line, &h) == nil
}

// readRecords returns every whole record. What follows a torn line was written after it by
// the same process, so a torn line can only be the last.
func readRecords(data []byte) []host.Record {
	var out []host.Record
	in := bufio.NewReader(bytes.NewReader(data))
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return out
		}
		var r host.Record
		if json.Unmarshal(line, &r) != nil {
			return out
		}
		out = append(out, r)
	}
}

// start begins a life under an incarnation, with a compacted file.
func (l *stateLog) start(incarnation int64) error {
	l.head.Version, l.head.Incarnation = stateVersion, incarnation
	return l.rewrite()
}

// append writes the records of a batch of steps; nothing may be answered before.
func (l *stateLog) append(records []host.Record) error {
	var out []byte
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode a state record: %w", err)
		}
		l.live[r.Name()] = line
		if r.Gone {
			delete(l.live, r.Name())
		}
		out = append(append(out, line...), '\n')
	}
	l.lines += len(records)
	if l.torn || l.lines > 2*len(l.live)+compactAt {
		return l.rewrite()
	}
	if _, err := l.file.Write(out); err != nil {
		l.torn = true
		return l.explain(err)
	}
	return nil
}

// expire drops records that say nothing any more, so that a rewrite forgets them.
func (l *stateLog) expire(now host.Instant) {
	for name, line := range l.live {
		var r host.Record
		if json.Unmarshal(line, &r) == nil && r.Expired(now) {
			delete(l.live, name)
		}
	}
}

// rewrite replaces the file by one that holds only what is live.
func (l *stateLog) rewrite() error {
	tmp := l.path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return l.explain(err)
	}
	if err := l.writeAll(f); err != nil {
		f.Close()
		l.torn = true
		return l.explain(err)
	}
	if err := os.Rename(tmp, l.path); err != nil {
		f.Close()
		l.torn = true
		return l.explain(err)
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.lines, l.torn = f, len(l.live), false
	return nil
}

func (l *stateLog) writeAll(w io.Writer) error {
	out := bufio.NewWriter(w)
	head, err := json.Marshal(l.head)
	if err != nil {
		return err
	}
	out.Write(append(head, '\n'))
	for _, line := range l.live {
		out.Write(append(line, '\n'))
	}
	return out.Flush()
}

func (l *stateLog) explain(err error) error {
	return fmt.Errorf("write the agent's state in %s: %w; nothing is promised or booted until there is room and permission", filepath.Dir(l.path), err)
}

func (l *stateLog) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
