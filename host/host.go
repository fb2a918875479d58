// Package host is a host's whole state: what it promised, what runs on it and what that
// is charged, whether its intake is open, and who may start. The agent, and the
// simulator, are shells around it.
//
//	Step(now, event) → effects
//
// Nothing is reserved unless admittable ≥ need in the same step; nothing boots unless its
// reservation is open here under its epoch, and redeeming closes it; the sum passes the
// line only by what moved afterwards. Where an ask says HoldOnExit, the charge of a sandbox
// that ends by itself becomes its open reservation again, in the same step.
//
// Worked: a budget of 4,096 MiB has a headroom of 256. Stateless sandboxes of 512 MiB
// with a floor of 64 MiB are charged 128 each, so 30 are reserved and the 31st is denied.
//
// A Host does no I/O and reads no clock: now is the host's boot-time clock. It is not safe
// for concurrent use; its owner holds one lock over each Step and reads effects under it.
package host

import (
	"time"

	"github.com/plimsoll-project/plimsoll/digest"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ledger"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// Instant is a reading of the host's own boot-time clock.
type Instant = time.Duration

// Config is what an operator sets for one host.
type Config struct {
	ID               string
	Mode             gate.Mode
	Enforcement      Enforcement
	Headroom         gate.Bytes    // zero: gate.DefaultHeadroom of the limits
	BootWithin       time.Duration // the longest life of a reservation between renewals
	MaxStarts        int           // sandboxes that may be starting at once
	MaxWaitingStarts int           // and those that may wait for that
	CPUMilli         int64
	StreamRestore    bool
	Labels           []gate.Label // sorted by name
	Dims             []gate.Dim   // capacities of the hard dimensions declared here
	Marks            pressure.Marks
	Reclaim          Reclaim // what is done when a bet is lost
}

// SandboxDim is the dimension that every sandbox takes one of, where a host declares it.
const SandboxDim = gate.SandboxDim

// DefaultConfig is the configuration table's.
func DefaultConfig(id string, cores int) Config {
	return Config{
		ID: id, Mode: gate.WorkingSet, BootWithin: 60 * time.Second,
		MaxStarts: 2 * cores, MaxWaitingStarts: 64, CPUMilli: int64(cores) * 1000,
		Marks: pressure.DefaultMarks(),
	}
}

// Phase is how far a sandbox is.
type Phase string

// The phases, in order. A sandbox is charged through all of them.
const (
	InLine   Phase = "waiting_start" // redeemed, waits for a start
	Starting Phase = "starting"      // may boot
	Running  Phase = "running"       // tracked
)

// Identity is what a ticket says about whom a sandbox belongs to.
type Identity = ledger.Identity

// Process is what a boot is tracked by.
type Process struct {
	Pid    int    `json:"pid,omitempty"`
	Start  uint64 `json:"start,omitempty"` // the kernel's start time of that pid
	Cgroup string `json:"cgroup,omitempty"`
}

// Sandbox is one that holds memory here.
type Sandbox struct {
	ID       string
	Epoch    int64
	Identity Identity
	Ask      gate.Ask
	Phase    Phase
	Process  Process
	Redeemed Instant
	Turn     int64 // its place among all that ever waited for a start here
	Tracked  Instant
	Usage    gate.Usage
	Swapped  gate.Bytes
	Peak     gate.Bytes // the most that a sample saw it hold
	Active   Instant    // when a sample last saw it work

	FileCache gate.Bytes // charged to it by the kernel, which can drop it
	Holds     []gate.Dim // of declared dimensions, as measured

	Stopping   bool
	Superseded bool   // a higher generation was asked for here: its end is for good
	Waiver     Waiver // what let it in without a reservation; "" for its ticket
	Evicting   string // why it was told to go; "" for one that was not

	unresident  gate.Bytes // (charge − resident)⁺, as summed
	other       gate.Bytes // likewise, were the host in its other mode
	peakWritten gate.Bytes // what is on disk of its peak
	sampled     Instant    // until when samples speak for it; zero: there was none
	seen        bool       // by a sample, in this life of the agent
	refaults    int64      // as of the last sample
	worked      time.Duration
	workedAt    Instant
	orderedAt   Instant // to go
}

// End is how a sandbox or a reservation ended. It is told until a replica has written it.
type End struct {
	ID     string
	Epoch  int64
	How    Outcome
	Reason string
	// Unbooted says that it was redeemed, had its start, and ended within 30 s without having
	// been tracked, and not because it was told to: its boot failed.
	Unbooted bool
}

// Outcome is the kind of an end.
type Outcome string

// The outcomes.
const (
	Exited  Outcome = "exited"
	Lapsed  Outcome = "lapsed"
	Evicted Outcome = "evicted"
)

// Ref names one placement of an admission.
type Ref struct {
	ID    string
	Epoch int64
}

// Host is the state. Use New or Restore.
type Host struct {
	cfg         Config
	incarnation int64
	sequence    int64
	now         Instant

	ledger    *ledger.Ledger
	sandboxes map[string]*Sandbox // id -> charged sandbox
	line      []string            // ids that wait for a start, first come first
	ends      map[Ref]End         // not yet written by a replica
	standing  Standing            // what is set aside for a waiter
	bypass    Bypass
	deeds     map[int64]Deed // number -> not yet in the audit
	lastDeed  int64

	unresident gate.Bytes // Σ (charge − resident)⁺ over sandboxes
	other      gate.Bytes // likewise, were the host in its other mode
	resident   gate.Bytes // Σ resident over sandboxes
	cpu        int64      // Σ thousandths of a core over sandboxes
	dims       []int64    // Σ over sandboxes of each dimension of the configuration: what they take, or hold if that is more
	holds      []int64    // Σ of what they were seen to hold of it
	strays     []Stray    // what runs without a ticket, by id
	outside    gate.Bytes // Σ resident over strays
	starting   int        // sandboxes in phase Starting
	booting    digest.Sum // of the sandboxes that a store knows, are not told to stop, and are not tracked
	running    digest.Sum // likewise, and are
	turn       int64      // the last that was given out

	counted map[string]bool // reservation -> the limits have it already

	meter  meter
	valve  *pressure.Valve
	intake Intake // what the operator ordered: IntakeOpen, IntakeCordoned or IntakeDraining

	debt      debt       // of a bet that is lost
	evictions []Eviction // the last of them, in order
	kills     Kills
	ramp      ramp

	ordered Enforcement      // by an operator: Enforce, for no order, or Shadow
	waived  map[Denial]int64 // denial -> how often it was only told, in this life of the agent
	tally   tally

	refaults int64 // of all sandboxes that samples saw in this life of the agent

	seen map[templateID]*seen // what runs of each template showed

	left        []gate.Dim // of each declared dimension, as the last verdict has it
	published   Verdict
	publishedAt Instant
	held        Holding // after the last step
	untold      bool    // it changed since it was published, though it may be as it was again
	// strayed says that the verdict has moved since it was published, though it may be as it was
	// again: whoever asked meanwhile would take a host for full that has room.
	strayed bool

	fx     Effects // reused by each Step
	lapsed []ledger.Entry
	spare  []*Sandbox // ended ones, to be used again
}

// New returns a host that holds nothing, under an incarnation from the store's sequence.
func New(cfg Config, incarnation int64) *Host {
	names := make([]string, len(cfg.Dims))
	for i, d := range cfg.Dims {
		names[i] = d.Name
	}
	return &Host{
		cfg: cfg, incarnation: incarnation,
		ledger:    ledger.New(cfg.BootWithin, names...),
		sandboxes: map[string]*Sandbox{}, ends: map[Ref]End{},
		deeds: map[int64]Deed{}, waived: map[Denial]int64{}, counted: map[string]bool{},
		tally: tally{refused: map[Denial]int64{}},
		dims:  make([]int64, len(cfg.Dims)), holds: make([]int64, len(cfg.Dims)),
		seen:  map[templateID]*seen{},
		valve: pressure.NewValve(cfg.Marks), intake: IntakeOpen,
		publishedAt: -heartbeat,
	}
}

// Event is something that happened.
type Event interface{ event() }

// Effects are what the shell must do after a step. The slices are valid until the next one.
type Effects struct {
	Answer    Answer     // to whoever sent the event
	Publish   bool       // send Verdict to every replica now
	Ends      []End      // new ends, to be told until Acked
	Reopens   []Ref      // sandboxes that ended, and whose reservations are open again
	Starts    []Ref      // waiting starts that are granted now
	Stops     []Ref      // sandboxes that must be stopped
	Lost      bool       // a bet was lost in this step, whatever is done about it
	Measure   bool       // a bet is lost, and a full sample says who pays: take it now
	Evictions []Eviction // sandboxes that must give their memory back now, or would have to in a dry run
	Records   []Record   // to be on disk before anything is answered
}

// Step takes the host from one instant to the next. Time never runs backwards: an
// earlier now counts as the latest one seen.
func (h *Host) Step(now Instant, ev Event) Effects {
	h.fx = Effects{
		Ends: h.fx.Ends[:0], Reopens: h.fx.Reopens[:0],
		Starts: h.fx.Starts[:0], Stops: h.fx.Stops[:0], Records: h.fx.Records[:0], Evictions: h.fx.Evictions[:0],
	}
	h.advance(now)
	switch e := ev.(type) {
	case Reserve:
		h.reserve(e)
	case Renew:
		h.renew(e)
	case Release:
		h.release(e)
	case Redeem:
		h.redeem(e)
	case Track:
		h.track(e)
	case Done:
		h.done(e)
	case Sample:
		h.sample(e)
	case OutOfGate:
		h.outOfGate(e)
	case SetIntake:
		h.setIntake(e)
	case Acked:
		h.acked(e)
	case Stand:
		h.stand(e)
	case Unstand:
		h.unstand(e.ID)
	case SetEnforcement:
		h.enforce(e)
	case Boot:
		h.boot(e)
	case SetBypass:
		h.setBypass(e)
	case AckedDeed:
		h.deedAcked(e)
	case KillCount:
		h.counts(e)
	case Closing:
		h.closing()
	case Tick:
	}
	h.grantStarts()
	h.publish()
	return h.fx
}

// advance expires what is due: the clock is part of every step, so the sweeper is hygiene.
func (h *Host) advance(now Instant) {
	h.tallyTime(max(h.now, now) - h.now)
	h.now = max(h.now, now)
	// Read off the clock, so that a restarted agent's words are newer without a counter on disk.
	h.sequence = max(h.sequence+1, int64(h.now/time.Microsecond))
	h.lapseStanding()
	h.lapseBypass()
	h.rampOn()
	h.lapsed = h.ledger.Advance(h.now, h.lapsed[:0])
	for _, e := range h.lapsed {
		h.end(End{ID: e.ID, Epoch: e.Gen, How: Lapsed, Reason: "not redeemed in time"})
		h.recordEntry(e)
	}
}

// end notes an end that replicas must hear of. It is written down before what ended is:
// a torn record leaves an end told too early, which Done tells again, but none forgotten.
func (h *Host) end(e End) {
	ref := Ref{e.ID, e.Epoch}
	if _, told := h.ends[ref]; told || Local(e.ID) {
		return
	}
	h.ends[ref] = e
	h.fx.Ends = append(h.fx.Ends, e)
	h.record(endRecord(e))
}

// acked forgets an end that a replica has written.
func (h *Host) acked(e Acked) {
	if _, ok := h.ends[Ref(e)]; ok {
		delete(h.ends, Ref(e))
		h.record(Record{Kind: RecordEnd, ID: e.ID, Epoch: e.Epoch, Gone: true})
	}
}

// Unwritten returns every end that no replica has acknowledged.
func (h *Host) Unwritten() []End {
	out := make([]End, 0, len(h.ends))
	for _, e := range h.ends {
		out = append(out, e)
	}
	sortEnds(out)
	return out
}

// Holds says what the host has of an admission at this epoch: an open reservation, a
// sandbox, or nothing. One whose ledger was lost runs under whatever epoch somebody knows.
func (h *Host) Holds(id string, epoch int64) (reserved, running bool) {
	if s := h.sandboxes[id]; s != nil && s.Epoch == epoch {
		return false, true
	}
	e, ok := h.ledger.Get(id)
	if ok && e.Gen == epoch && e.State == ledger.Open {
		return true, false
	}
	return false, h.lost(id)
}

// Due is the instant at which a Tick next has something to do.
func (h *Host) Due() Instant {
	due := min(h.ledger.Due(), h.publishedAt+heartbeat)
	if h.standing.ID != "" {
		due = min(due, h.standing.Until)
	}
	if h.bypass.Until > 0 {
		due = min(due, h.bypass.Until)
	}
	if h.ramp.on {
		due = min(due, h.rampDue())
	}
	switch {
	case h.strayed:
		due = min(due, h.publishedAt+NewsEvery)
	case h.untold:
		due = min(due, h.publishedAt+tellHolding)
	}
	return due
}
