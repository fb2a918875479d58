package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/vmtest"
)

// check is one thing that must hold inside.
type check struct {
	name string
	does func(c *run)
}

// run is one check while it runs, as testing.T is: this program is no test, since what go test
// builds would run on the developer's machine, too.
type run struct {
	*machine
	name     string
	failed   bool
	cleanups []func()
}

type stop struct{}

// do runs a check and tells of it.
func (m *machine) do(k check) {
	c := &run{machine: m, name: k.name}
	c.tell(vmtest.Begin, "")
	c.guarded(func() { k.does(c) })
	for _, f := range slices.Backward(c.cleanups) {
		c.guarded(f)
	}
	if c.failed {
		c.tell(vmtest.Note, "the agent's last words:\n"+lastOf(m.agentLog(), 2000))
		c.tell(vmtest.Note, "the kernel's last words:\n"+lastOf(kernelLog(), 1000))
	}
	c.tell(vmtest.End, "")
}

func (c *run) guarded(f func()) {
	defer func() {
		switch p := recover(); p {
		case nil, stop{}:
		default:
			c.errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	f()
}

func (c *run) tell(kind vmtest.Kind, text string) {
	report(vmtest.Event{Kind: kind, Check: c.name, Text: text})
}

func (c *run) logf(format string, args ...any) { c.tell(vmtest.Note, fmt.Sprintf(format, args...)) }

func (c *run) errorf(format string, args ...any) {
	c.failed = true
	c.tell(vmtest.Fault, fmt.Sprintf(format, args...))
}

func (c *run) fatalf(format string, args ...any) {
	c.errorf(format, args...)
	panic(stop{})
}

func (c *run) must(err error) {
	if err != nil {
		c.fatalf("%v", err)
	}
}

func (c *run) cleanup(f func()) { c.cleanups = append(c.cleanups, f) }

// An emulated processor beside other tests is slow: what takes a second may take many.
const (
	patience = 30 * time.Second // by the clock of the machine, which is late under load
	lookEach = 100 * time.Millisecond
)

// becomes waits until nothing is wrong any more.
func (c *run) becomes(what string, wrong func() string) {
	deadline := time.Now().Add(patience)
	for {
		why := wrong()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			c.fatalf("%s, after %v: %s", what, patience, why)
		}
		time.Sleep(lookEach)
	}
}

// kernelLog is what dmesg would show.
func kernelLog() string {
	const readAll = 3
	text := make([]byte, 256<<10)
	n, err := unix.Klogctl(readAll, text)
	if err != nil {
		return err.Error()
	}
	return string(text[:n])
}

func (m *machine) agentLog() string {
	text, err := os.ReadFile(agentLogFile)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// lastOf is the end of a text, by whole lines.
func lastOf(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	_, rest, _ := strings.Cut(text, "\n")
	return rest
}
