package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Fault is one thing that is wrong, and what to do about it.
type Fault struct {
	File    string
	Line    int    // 0: not in a file
	Path    string // as in fleet.pools[0].cap, or the environment variable; "": the file as a whole
	Message string
}

// Error prints file:line: path: message.
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	if f.Path != "" {
		b.WriteString(": " + f.Path)
	}
	return b.String() + ": " + f.Message
}

// Faults are all that is wrong, in the order of the file.
type Faults []Fault

// Error prints one fault a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// report collects faults and remembers where each setting stands.
type report struct {
	file   string
	lines  map[string]int    // path -> line, of all that was stated
	names  map[string]string // path -> environment variable that stated it
	bad    map[string]bool   // paths that could not be read
	faults Faults
}

func newReport(file string) *report {
	return &report{file: file, lines: map[string]int{}, names: map[string]string{}, bad: map[string]bool{}}
}

// add reports a setting that could not be read.
func (r *report) add(line int, path, format string, args ...any) {
	r.bad[path] = true
	r.append(line, path, fmt.Sprintf(format, args...))
}

func (r *report) append(line int, path, message string) {
	if name := r.names[path]; name != "" {
		path = name
	}
	r.faults = append(r.faults, Fault{File: r.file, Line: line, Path: oneLine(path), Message: message})
}

// oneLine keeps a key that somebody made up from breaking the line that names it.
func oneLine(path string) string {
	const most = 200
	if len(path) > most || strings.ContainsFunc(path, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.QuoteToASCII(short(path))
	}
	return path
}

// relation reports a fault between settings, at the first of them that was stated. One
// that could not be read is not compared: what it was meant to be is not known.
func (r *report) relation(paths []string, format string, args ...any) {
	if slices.ContainsFunc(paths, r.unread) {
		return
	}
	at := paths[0]
	for _, p := range paths {
		if r.lines[p] > 0 || r.names[p] != "" {
			at = p
			break
		}
	}
	r.append(r.lineOf(at), at, fmt.Sprintf(format, args...))
}

// unread says whether a setting, or the section it is in, could not be read.
func (r *report) unread(path string) bool {
	for p := path; p != ""; p = above(p) {
		if r.bad[p] {
			return true
		}
	}
	return false
}

// lineOf is where a setting stands, or else the nearest section around it.
func (r *report) lineOf(path string) int {
	for p := path; p != ""; p = above(p) {
		if line := r.lines[p]; line > 0 {
			return line
		}
	}
	return r.lines[""]
}

// above is the path of what a path is part of.
func above(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// err returns all faults in the order of the file, nil for none.
func (r *report) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return r.faults
}
