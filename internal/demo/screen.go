package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/plimsoll-project/plimsoll/internal/cli"
)

// The layout, in columns of a terminal of 80.
const (
	width  = 80
	indent = 5
	column = 36 // of one host, where there are two side by side
	gutter = width - indent - 2*column
	label  = 36 // of a row with a figure for each host
	figure = 19
)

// screen is what is seen: for each step a heading, and what was read from the hosts.
type screen struct {
	out   io.Writer
	style style
	tty   bool // one line is rewritten; else a plain line now and then

	mu      sync.Mutex // guards what follows, and whole writes
	number  int
	title   string
	started time.Time
	said    time.Time // when the last plain line of progress was
	shown   bool      // a line is there to be rewritten
	details []string  // of the step, shown when it ends
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out, style: styleFor(out)}
	if f, ok := out.(*os.File); ok {
		s.tty = term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
	}
	return s
}

// rarely is the least time between two plain lines of progress.
const rarely = 3 * time.Second

// begin opens a step.
func (s *screen) begin(number int, title string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.number, s.title, s.started, s.said, s.details = number, title, now, now, nil
	s.rewrite("")
}

// progress says how far a step is.
func (s *screen) progress(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if s.tty {
		s.rewrite(text)
		return
	}
	if now := time.Now(); now.Sub(s.said) >= rarely {
		s.said = now
		fmt.Fprintln(s.out, cut(fmt.Sprintf("  %s %d  %s", s.style.dots, s.number, text), width))
	}
}

// rewrite draws the line that is rewritten.
func (s *screen) rewrite(text string) {
	if !s.tty {
		return
	}
	line := fmt.Sprintf("%s %d  %s", s.style.dots, s.number, s.title)
	if text != "" {
		line = fmt.Sprintf("%s %d  %s, %s", s.style.dots, s.number, text, seconds(time.Since(s.started)))
	}
	fmt.Fprint(s.out, "\r\x1b[K"+cut(line, width-1))
	s.shown = true
}

func (s *screen) clear() {
	if s.shown {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
	s.shown = false
}

// note adds a line to the step, broken where it is too long.
func (s *screen) note(format string, args ...any) {
	s.add(cli.Wrap(fmt.Sprintf(format, args...), width-indent)...)
}

// pair adds a line with a part for each host.
func (s *screen) pair(left, right string) {
	s.add(strings.TrimRight(pad(left, column)+strings.Repeat(" ", gutter)+right, " "))
}

// row adds a line with a figure for each host.
func (s *screen) row(name, left, right string) { s.add(rowOf(name, left, right)) }

func (s *screen) add(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.details = append(s.details, lines...)
}

// end closes a step: its heading with the time it took, then what was seen.
func (s *screen) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	mark := s.style.good()
	if err != nil {
		mark = s.style.bad()
	}
	fmt.Fprintln(s.out, heading(mark, s.number, s.title, time.Since(s.started)))
	for _, line := range s.details {
		fmt.Fprintln(s.out, strings.Repeat(" ", indent)+line)
	}
	for _, line := range complaint(err) {
		fmt.Fprintln(s.out, strings.Repeat(" ", indent)+line)
	}
	fmt.Fprintln(s.out)
}

// interrupted says that the rest is not shown.
func (s *screen) interrupted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	fmt.Fprintf(s.out, "%s %d  %s: interrupted, clearing up\n", s.style.bad(), s.number, s.title)
}

// heading is a step's first line, its time at the right edge.
func heading(mark string, number int, title string, took time.Duration) string {
	time := seconds(took)
	const before = 5 // mark, number and blanks
	return fmt.Sprintf("%s %d  %s%s", mark, number, pad(cut(title, width-before-len(time)-1), width-before-len(time)), time)
}

// complaint is what was expected, and what came.
func complaint(err error) []string {
	var m mismatch
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &m):
		return cli.Wrap(err.Error(), width-indent)
	}
	host, _, _ := strings.Cut(err.Error(), m.Error())
	lines := cli.Wrap(host+m.what, width-indent)
	lines = append(lines, hang("expected  ", m.want)...)
	return append(lines, hang("got       ", m.got)...)
}

// hang sets a text beside its name.
func hang(name, text string) []string {
	lines := cli.Wrap(text, width-indent-len(name))
	for i := range lines {
		lines[i] = name + lines[i]
		name = strings.Repeat(" ", len(name))
	}
	return lines
}

func rowOf(name, left, right string) string {
	return pad(name, label) + padLeft(left, figure) + padLeft(right, figure)
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(n-utf8.RuneCountInString(s), 0))
}

func padLeft(s string, n int) string {
	return strings.Repeat(" ", max(n-utf8.RuneCountInString(s), 0)) + s
}

func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
