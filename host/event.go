package host

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Reserve asks to set memory aside for (ID, Gen) until an instant of this host's own
// clock, read by a replica off the incarnation's last frame.
type Reserve struct {
	ID          string
	Gen         int64
	Ask         gate.Ask
	Until       Instant
	Incarnation int64
	Whose       Identity // where no store keeps the admission; else empty
}

// Renew lengthens an open reservation.
type Renew struct {
	ID          string
	Epoch       int64
	Until       Instant
	Incarnation int64
}

// Release ends (ID, Gen) and whatever is lower: a reservation at once, a running sandbox
// by stopping it, which Done then reports. A Reserve that it overtook finds itself closed.
type Release struct {
	ID  string
	Gen int64
}

// Redeem turns an open reservation into a charged sandbox that may start, now or when its
// turn comes. The ticket was verified by the shell.
type Redeem struct {
	ID       string
	Epoch    int64
	Identity Identity
}

// Track says that a start has led to a process, and gives the start back.
type Track struct {
	ID      string
	Epoch   int64
	Process Process
}

// Done says that a sandbox is gone, or that its start was abandoned. Where the ask says
// HoldOnExit, one that ran and ended by itself leaves an open reservation of the same epoch.
type Done struct {
	ID      string
	Epoch   int64
	Evicted bool
	Reason  string
	By      Means // of one that was told to go: what was done to it; "" for nothing
	// OutOfMemory says that the kernel killed it for want of the host's memory, not of its own
	// limit's: its caller comes back through the gate.
	OutOfMemory bool
}

// Sample is what was measured. Sandboxes are read first and limits last, so that skew
// errs safe. A sample of limits alone leaves Sandboxes nil and Full false.
type Sample struct {
	Limits    []gate.Limit
	Budget    gate.Bytes // configured budget; zero: none
	Full      bool       // Sandboxes is complete
	Sandboxes []Resident
	Counted   []string // reservations that the limits have in them already: they run where nobody redeems
	// Of limits alone: by how much what the cgroup Under holds has grown since the last full
	// sample, so that a budget is watched as often as every other limit.
	Under   string
	Grown   gate.Bytes
	PSI     bool
	Some    int64 // hundredths of a percent, avg10
	FullPSI int64
	// Dims are units of declared dimensions that nobody has, where that can be measured; of a
	// Full sample. Those left out were not.
	Dims []gate.Dim
	// Refaults are pages of files that were read again soon after they were dropped, of the whole
	// machine since it started; of a Full sample. They are told, and decide nothing.
	Refaults Counter
}

// Counter is one of the kernel's, where it has it.
type Counter struct {
	N     int64
	Known bool
}

// Resident is what one sandbox was seen to hold.
type Resident struct {
	ID        string
	Bytes     gate.Bytes // with what was swapped out
	Swapped   gate.Bytes
	FileCache gate.Bytes    // not in Bytes: the kernel can drop it
	Refaults  int64         // pages of files that it read again soon after they were dropped, so far
	Dims      []gate.Dim    // of declared dimensions, where that can be measured
	CPU       time.Duration // that it has worked since it began; below zero: not known
}

// OutOfGate says what runs here without a ticket, all of it: what is left out is gone.
type OutOfGate struct{ Strays []Stray }

// SetIntake is an operator's order: open, cordoned or draining. It outlives a restart.
type SetIntake struct{ Intake Intake }

// Stand asks to set memory aside, as it frees, for a waiter that finds no host, until an
// instant of this host's own clock as a Reserve has it. Repeated, it goes on.
type Stand struct {
	ID          string
	Ask         gate.Ask
	Until       Instant
	Incarnation int64
}

// Unstand takes a Stand back.
type Unstand struct{ ID string }

// SetEnforcement is an operator's order: shadow, or enforce to take that back. It outlives a
// restart.
type SetEnforcement struct{ To Enforcement }

// Boot charges a sandbox that has no reservation and may start, on a host in shadow or under
// a bypass. The id is new and the agent's own.
type Boot struct {
	ID       string
	Ask      gate.Ask
	Identity Identity
	Ticket   Denial // why its ticket is none that counts here, or NoTicket
}

// SetBypass lets boots in without a ticket for so long; zero ends that.
type SetBypass struct {
	For    time.Duration
	By     string
	Reason string
}

// AckedDeed says that a replica has written a deed into the audit.
type AckedDeed struct{ N int64 }

// KillCount says how often the kernel has killed for want of memory since the machine started,
// but where a sandbox met its own limit. Away says that the agent was not there meanwhile.
type KillCount struct {
	N    int64
	Away bool
}

// Closing says that the agent ends, and was not killed.
type Closing struct{}

// Acked says that a replica has written an end.
type Acked Ref

// Tick lets time pass.
type Tick struct{}

func (Reserve) event()   {}
func (Renew) event()     {}
func (Release) event()   {}
func (Redeem) event()    {}
func (Track) event()     {}
func (Done) event()      {}
func (Sample) event()    {}
func (OutOfGate) event() {}
func (SetIntake) event() {}
func (Stand) event()     {}
func (Unstand) event()   {}
func (Acked) event()     {}
func (Tick) event()      {}

func (SetEnforcement) event() {}
func (Boot) event()           {}
func (SetBypass) event()      {}
func (AckedDeed) event()      {}
func (KillCount) event()      {}
func (Closing) event()        {}

// Answer is what the sender of an event is told. The zero Denial is a yes.
type Answer struct {
	Denial  Denial
	Detail  string  // the dimension or label that was lacking
	Would   Denial  // what enforce would have said, in shadow; Denial is a yes then
	InLine  bool    // Redeem: granted, but the start comes later, in Effects.Starts
	Running bool    // Release: the sandbox is being stopped; its end follows
	Evicted string  // Done: why it had to go, where it had to; it comes back through the gate
	Until   Instant // Reserve, Renew, Stand, and Done where the place is kept: when that lapses
	Need    gate.Bytes
	Verdict Verdict // as it is after the step; a denial carries it to be picked again with
}

// Denial says why not.
type Denial string

// The denials. Those of Reserve and Stand lead to another pick; those of Redeem reach the
// booter.
const (
	NoRoom        Denial = "no_room"
	Pressure      Denial = "pressure"
	Cordoned      Denial = "cordoned"
	Draining      Denial = "draining"
	StartsFull    Denial = "starts_full"
	LacksDim      Denial = "lacks_dimension"
	LacksLabel    Denial = "lacks_label"
	Invalid       Denial = "invalid"           // no figure that could be counted; Detail names it
	Superseded    Denial = "superseded"        // a higher generation was seen
	Closed        Denial = "closed"            // released, or refused, under this generation
	Used          Denial = "used"              // redeemed before; Stand: it has its place here
	LapsedOrNever Denial = "lapsed"            // lapsed, or unknown here
	OtherLife     Denial = "other_incarnation" // until was read off another incarnation's clock
	StillRunning  Denial = "still_running"     // the id runs here under another epoch
	StandTaken    Denial = "stand_taken"       // memory is set aside here for another waiter
	NoTicket      Denial = "no_ticket"         // and neither shadow nor a bypass lets anything in without one
	Observing     Denial = "observing"         // the host only measures
	NotSuch       Denial = "no_such_sandbox"
)
