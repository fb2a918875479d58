// Package vmtest runs the agent where a developer's machine or a container cannot: in a small
// Linux of its own, as root, with cgroup v2 alone, the memory controller, pressure figures, swap,
// huge pages, and a kernel that may run out of memory. And it boots such a machine as a sandbox.
//
// What happens inside is in package guest: a program that is the machine's init, starts the agent
// as it is shipped, and checks what it says against what was done. It reports by lines of its
// console, which are this package's Events; each check becomes a subtest here.
package vmtest

import (
	"encoding/json"
	"strings"
)

// mark begins the lines of the console that are events, and not the kernel's.
const mark = "vmtest: "

// Event is one line of a guest's report.
type Event struct {
	Kind  Kind   `json:"kind"`
	Check string `json:"check,omitempty"` // which one it is about
	Text  string `json:"text,omitempty"`
}

// Kind says what an event is.
type Kind string

// The kinds.
const (
	Begin Kind = "begin" // of a check
	Note  Kind = "note"  // a figure that it saw
	Fault Kind = "fault" // what does not hold
	End   Kind = "end"   // of a check
	Ready Kind = "ready" // takes the next order
	Over  Kind = "over"  // all checks have ended
)

// Line is the event as a line of the console.
func (e Event) Line() string {
	text, err := json.Marshal(e)
	if err != nil { // strings always can be
		panic(err)
	}
	return mark + string(text)
}

// ParseLine reads a line of the console; false for one that is no event.
func ParseLine(line string) (Event, bool) {
	_, text, marked := strings.Cut(line, mark)
	var e Event
	if !marked || json.Unmarshal([]byte(text), &e) != nil || e.Kind == "" {
		return Event{}, false
	}
	return e, true
}
