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
// the connection: when it closes, that is Done, so a booter that dies holds nothing. Where a
// class says hold_on_exit, the same ticket starts its sandbox again, on a new connection,
// when that has ended by itself.
//
// Where there is no replica, the host gate alone, the ticket is the agent's own: Reserve
// asks it for one, and Renew and Release keep it or give it back. A reservation that nobody
// redeems or renews lapses by itself, so a node daemon that dies holds nothing.
package boot

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/plimsoll-project/plimsoll/api"
)

// The operations.
const (
	OpRedeem = "redeem" // ticket; under a bypass or in shadow, ask
	OpTrack  = "track"  // pid, or cgroup
	OpDone   = "done"   // reason
	OpRun    = "run"    // ticket or ask, command: the agent's process driver boots it
	OpSignal = "signal" // signal: for the process that OpRun booted

	// Of the host gate alone: what this host admits by itself, without a replica.
	OpReserve = "reserve" // ask
	OpRenew   = "renew"   // ticket, of a reserve
	OpRelease = "release" // ticket, of a reserve
	OpBypass  = "bypass"  // bypass, to set it; nothing, to look
	OpShow    = "show"    // nothing: what the host can still promise, and why
	OpClasses = "classes" // nothing: what the host has learned by itself of what it admitted by itself
)

// MaxLine bounds one request in bytes; a command with its environment is the largest.
const MaxLine = 4 << 20

// Request is one line to the agent.
type Request struct {
	Op      string       `json:"op"`
	Ticket  string       `json:"ticket,omitempty"`
	Pid     int          `json:"pid,omitempty"`
	Cgroup  string       `json:"cgroup,omitempty"` // below the memory controller's root
	Reason  string       `json:"reason,omitempty"`
	Command *Command     `json:"command,omitempty"`
	Signal  int          `json:"signal,omitempty"`
	Ask     *Ask         `json:"ask,omitempty"`
	Bypass  *BypassOrder `json:"bypass,omitempty"`
}

// Command is what OpRun boots, as the user at the other end of the socket.
type Command struct {
	Argv   []string // the command, and its arguments
	Env    []string // all of its environment
	Dir    string   // where it starts; default /
	Detach bool     // outlive the connection; else its close stops the sandbox
}

// On the wire a word that is no UTF-8, as arguments and environment may be, is sent as its
// bytes: {"bytes": "/w=="}. Sent as a string JSON would mend it, and so change it.
type word string

type rawWord struct {
	Bytes []byte `json:"bytes"`
}

func (w word) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(w)) {
		return json.Marshal(string(w))
	}
	return json.Marshal(rawWord{[]byte(w)})
}

func (w *word) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return json.Unmarshal(text, (*string)(w))
	}
	var raw rawWord
	err := json.Unmarshal(text, &raw)
	*w = word(raw.Bytes)
	return err
}

// wireCommand is Command as it is sent.
type wireCommand struct {
	Argv   []word `json:"argv"`
	Env    []word `json:"env,omitempty"`
	Dir    word   `json:"dir,omitempty"`
	Detach bool   `json:"detach,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (c Command) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireCommand{convert[word](c.Argv), convert[word](c.Env), word(c.Dir), c.Detach})
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Command) UnmarshalJSON(text []byte) error {
	var w wireCommand
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*c = Command{convert[string](w.Argv), convert[string](w.Env), string(w.Dir), w.Detach}
	return nil
}

func convert[To, From ~string](words []From) []To {
	if words == nil {
		return nil
	}
	out := make([]To, len(words))
	for i, w := range words {
		out[i] = To(w)
	}
	return out
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

	EvReserved = "reserved" // of OpReserve and OpRenew
	EvReleased = "released" // of OpRelease
	EvShown    = "shown"    // of OpShow
	EvBypass   = "bypass"   // of OpBypass
	EvClasses  = "classes"  // of OpClasses
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

	// Of EvReserved, and of EvRefused where a reserve was.
	Ticket       string `json:"ticket,omitempty"`
	Host         string `json:"host,omitempty"`
	ExpiresInMS  int64  `json:"expires_in_ms,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	NeedMB       int64  `json:"need_mb,omitempty"`       // what the host holds, or would hold, for the ask
	AdmittableMB int64  `json:"admittable_mb,omitempty"` // what it can still promise
	Intake       string `json:"intake,omitempty"`

	Shown  *api.Host   `json:"shown,omitempty"`  // of EvShown
	Bypass *api.Bypass `json:"bypass,omitempty"` // of EvBypass
	// Of EvClasses, as a replica would show them.
	Classes *api.ClassList `json:"classes,omitempty"`
	Waiver  string         `json:"waiver,omitempty"` // of EvStart and EvTracked: shadow or bypass, what let it in without a ticket
}

// Exit is how a process that OpRun booted ended.
type Exit struct {
	Status  int    `json:"status"`           // as a shell counts it: 128 + signal when one ended it
	Signal  string `json:"signal,omitempty"` // its name
	OOM     bool   `json:"oom,omitempty"`    // the kernel killed it at its own memory limit
	Unknown bool   `json:"unknown,omitempty"`
	// Evicted is why it had to go, where the host ran out of memory: whatever Status says, it has
	// not ended by itself, and comes back through the gate by another admission.
	Evicted string `json:"evicted,omitempty"`
}
