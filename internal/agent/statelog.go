package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"

	"github.com/plimsoll-project/plimsoll/host"
)

// stateLog is the agent's memory of itself: a header, then one record a line, a later one
// of the same name replacing the former. It is not synced: it must survive the agent, and
// after a crash of the machine nothing that it could say is true any more. The header's
// boot id says so.
type stateLog struct {
	path   string
	head   header
	lock   *os.File // held for as long as this agent lives
	file   *os.File
	live   map[host.Name]line // name -> its last record
	buffer []byte             // of the last write, to be used again
	lines  int                // in the file, live or not
	kept   int                // of them when the file was begun
	broken bool               // the last write failed, perhaps half-way: begin a new file before anything else
}

// line is a record as it stands in the file. What holds a host's thousands of records must be
// little to look through for whoever collects garbage.
type line struct {
	text  string
	until host.Instant // says nothing any more from then on
}

// forever is a record that does not expire by itself.
const forever = host.Instant(math.MaxInt64)

// header is the first line.
type header struct {
	Version     int    `json:"version"`
	Host        string `json:"host"`
	BootID      string `json:"boot_id"`
	Incarnation int64  `json:"incarnation"`
	// Begun is when this memory did: what ran before may be remembered no more.
	Begun host.Instant `json:"begun,omitempty"`
}

const (
	stateVersion = 1
	// compactAt is how many lines may be added to as many as were kept, and the kept ones
	// once more, before the file is begun anew: so the cost of that is one line each.
	compactAt = 4096
)

// openState reads the log of an earlier life on this boot. What of it is not believed is kept
// beside it, before anything can replace it.
func openState(path string, want header) (l *stateLog, got *found, err error) {
	lock, err := lockState(path)
	if err != nil {
		return nil, nil, err
	}
	l = &stateLog{path: path, head: want, lock: lock, live: map[host.Name]line{}}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, &found{}, nil
	case err != nil:
		l.close()
		return nil, nil, fmt.Errorf("read the agent's state: %w; it must be a file that the user who runs the agent can read", err)
	}
	got = judge(data, want)
	if err := got.keep(path, data); err != nil {
		l.close()
		return nil, nil, err
	}
	if got.doubt == believed {
		l.head = got.head
	}
	return l, got, nil
}

// lockState keeps a second agent away from the state: each would undo what the other
// wrote, and a ticket that one redeemed would be open again for the next. The lock stands
// beside the file, because that is replaced.
func lockState(path string) (*os.File, error) {
	lock, err := Lock(path + ".lock")
	switch {
	case errors.Is(err, ErrLocked):
		return nil, fmt.Errorf("%w: another agent runs on this state; stop that one, or use another data directory", err)
	case err != nil:
		return nil, fmt.Errorf("lock the agent's state: %w; its directory must be there, and writable by the user who runs the agent", err)
	}
	return lock, nil
}

func readHeader(data []byte) (h header, rest []byte, ok bool) {
	line, rest, found := bytes.Cut(data, []byte("\n"))
	return h, rest, found && json.Unmarshal(line, &h) == nil
}

// start begins a life under an incarnation, with a compacted file that has what was taken over.
func (l *stateLog) start(incarnation int64, got *found, now host.Instant) error {
	l.note(got.records)
	l.head.Version, l.head.Incarnation = stateVersion, incarnation
	if l.head.Begun == 0 {
		l.head.Begun = now
	}
	return l.rewrite(now)
}

// append writes the records of a batch of steps; nothing may be answered before.
func (l *stateLog) append(records []host.Record, now host.Instant) error {
	out := l.note(records)
	l.lines += len(records)
	if l.broken {
		return l.mend(now)
	}
	if l.lines > 2*l.kept+compactAt && l.rewrite(now) == nil {
		return nil // where there is no room for a second file, the first goes on
	}
	if len(records) == 0 {
		return nil
	}
	if _, err := l.file.Write(out); err != nil {
		l.broken = true
		return l.explain(err)
	}
	return nil
}

// mend begins a new file after a failed write, which is the first thing to be tried then.
func (l *stateLog) mend(now host.Instant) error {
	if !l.broken {
		return nil
	}
	return l.rewrite(now)
}

// note takes records over, and returns their text, which is good until the next call.
func (l *stateLog) note(records []host.Record) []byte {
	all := l.buffer[:0]
	for i := range records {
		r, name, from := &records[i], records[i].Name(), len(all)
		all = append(appendRecord(all, r), '\n')
		switch {
		case r.Gone:
			delete(l.live, name)
		case r.Expired(forever):
			l.live[name] = line{string(all[from:]), r.Until}
		default:
			l.live[name] = line{string(all[from:]), forever}
		}
	}
	l.buffer = all
	return all
}

// rewrite replaces the file by one that holds only what still says something. It appears
// whole or not at all.
func (l *stateLog) rewrite(now host.Instant) error {
	maps.DeleteFunc(l.live, func(_ host.Name, r line) bool { return r.until <= now })
	tmp := l.path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return l.explain(err)
	}
	if err = l.writeAll(f); err == nil {
		err = os.Rename(tmp, l.path)
	}
	if err != nil {
		f.Close()
		os.Remove(tmp) // it takes the very room that is lacking
		return l.explain(err)
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.lines, l.kept, l.broken = f, len(l.live), len(l.live), false
	return nil
}

func (l *stateLog) writeAll(w io.Writer) error {
	out := bufio.NewWriter(w)
	head, err := json.Marshal(l.head)
	if err != nil {
		return err
	}
	out.Write(append(head, '\n'))
	for _, r := range l.live {
		out.WriteString(r.text)
	}
	return out.Flush()
}

func (l *stateLog) explain(err error) error {
	return fmt.Errorf("write the agent's state in %s: %w; nothing is promised or booted until there is room and permission", filepath.Dir(l.path), err)
}

func (l *stateLog) close() error {
	err := l.lock.Close()
	if l.file != nil {
		err = errors.Join(l.file.Close(), err)
	}
	return err
}
