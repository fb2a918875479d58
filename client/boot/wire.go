// Package boot is the seam between the gate and whatever boots sandboxes:
//
//	Redeem(ticket) → Track(pid or cgroup) → Done
//
// on the Unix socket of the host's agent. Orchestrators use it, and so does the agent's own
// process driver. Redeem turns the ticket's reservation into a charge and waits for a start;
// Track gives the start back and names the process, whose end the agent then sees by itself;
// Done says that it is over, or that nothing came of it.
//
// One connection is one boot, and lines of JSON go both ways. Until Track the start lives by
// the connection: when it closes, that is Done, so a booter that dies holds nothing.
package boot

import "github.com/plimsoll-project/plimsoll/api"

// The operations.
const (
	OpRedeem = "redeem" // ticket
	OpTrack  = "track"  // pid, or cgroup
	OpDone   = "done"   // reason
	OpRun    = "run"    // ticket, command: the agent's process driver boots it
	OpSignal = "signal" // signal: for the process that OpRun booted
)

// Request is one line to the agent.
type Request struct {
	Op      string   `json:"op"`
	Ticket  string   `json:"ticket,omitempty"`
	Pid     int      `json:"pid,omitempty"`
	Cgroup  string   `json:"cgroup,omitempty"` // below the memory controller's root
	Reason  string   `json:"reason,omitempty"`
	Command *Command `json:"command,omitempty"`
	Signal  int      `json:"signal,omitempty"`
}

// Command is what OpRun boots, as the user at the other end of the socket.
type Command struct {
	Argv   []string `json:"argv"`
	Env    []string `json:"env,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	Detach bool     `json:"detach,omitempty"` // outlive the connection; else its close stops the sandbox
}

// The events.
const (
	EvInLine  = "in_line" // redeemed and charged; the start comes when it is this one's turn
	EvStart   = "start"   // may boot now
	EvTracked = "tracked"
	EvStop    = "stop" // the admission was released: end the sandbox
	EvDone    = "done"
	EvOutput  = "output" // of OpRun
	EvExited  = "exited" // of OpRun
	EvRefused = "refused"
)

// Reply is one line from the agent.
type Reply struct {
	Event    string   `json:"event"`
	ID       string   `json:"id,omitempty"`
	Epoch    int64    `json:"epoch,omitempty"`
	MemoryMB int64    `json:"memory_mb,omitempty"` // configured size: the limit to boot with
	Pid      int      `json:"pid,omitempty"`
	Code     api.Code `json:"code,omitempty"` // of EvRefused
	Detail   string   `json:"detail,omitempty"`
	Stream   string   `json:"stream,omitempty"` // stdout or stderr
	Data     []byte   `json:"data,omitempty"`
	Exit     *Exit    `json:"exit,omitempty"`
}

// Exit is how a process that OpRun booted ended.
type Exit struct {
	Status  int    `json:"status"`           // as a shell counts it: 128 + signal when one ended it
	Signal  string `json:"signal,omitempty"` // its name
	OOM     bool   `json:"oom,omitempty"`    // the kernel killed it at its own memory limit
	Unknown bool   `json:"unknown,omitempty"`
}
