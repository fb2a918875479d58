package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// Reclaim says what is done when a bet is lost.
type Reclaim uint8

// The settings. With ReclaimOff the kernel chooses, by the order that the shell tells it.
const (
	ReclaimOff    Reclaim = iota
	ReclaimDryRun         // who would have to go is told, and nobody goes
	ReclaimOn
)

var reclaimNames = [...]string{"off", "dry-run", "on"}

// String returns the word of the configuration and the API.
func (r Reclaim) String() string {
	if int(r) < len(reclaimNames) {
		return reclaimNames[r]
	}
	return "unknown"
}

// Means is how a sandbox was made to give its memory back.
type Means string

// The means.
const (
	Ordered     Means = "ordered"               // it was told to go, and has not gone yet
	WouldGo     Means = "dry-run"               // it would have been
	Hibernated  Means = "hibernated"            // by the operator's hook
	StoppedBy   Means = "stopped"               // likewise
	Killed      Means = "killed"                // by the agent: there is no hook
	KilledAfter Means = "killed after its hook" // by the agent: no hook made it go
	ByKernel    Means = "killed by the kernel"  // which was quicker than its hook
	Unseen      Means = "ended unseen"          // while no agent was there: by what is not known
	GoneBefore  Means = "ended by itself"       // before anything was done to it
)

// Eviction is one deed of a lost bet, with the figures that it was decided by.
type Eviction struct {
	ID       string
	Epoch    int64
	Identity Identity
	Process  Process
	At       Instant
	By       Means
	Gone     Instant // when its end was told; zero: it was not

	Priority  int
	Idle      time.Duration
	Resident  gate.Bytes // as the sample had it that it was decided by
	Overshoot gate.Bytes // of that, beyond what stands under it
	Free      gate.Bytes // of the host, likewise
	Headroom  gate.Bytes
	Deficit   gate.Bytes
}

// Why says it in one line: the reason of the sandbox's end, and of the entry in the audit.
func (e *Eviction) Why() string {
	return fmt.Sprintf("the host had %s free of a headroom of %s, and %s had to come back; priority %d, idle %s, %s resident, %s above its reserve",
		e.Free, e.Headroom, e.Deficit, e.Priority, e.Idle.Truncate(time.Second), e.Resident, e.Overshoot)
}

const (
	// backWithin is how long what was ordered may take to be seen back; then somebody else goes.
	backWithin = time.Second
	// lastEvictions is how many are shown.
	lastEvictions = 32
	// idleBelow is the part of a core, as one of so many, below which a sandbox does nothing.
	idleBelow = 100
	// idleSpan is the shortest time that says whether it does.
	idleSpan = 100 * time.Millisecond
)

// debt is what a lost bet has cost so far.
type debt struct {
	lost    bool // by the last reading
	ordered bool // somebody was told to go, or would have been
	at      Instant
	vain    bool         // nobody was left to be told
	seen    bool         // a sample came since the last one has
	told    map[Ref]bool // in a dry run: who was named since the bet was lost
}

// Reclaim is what is in force. A host that refuses nothing ends nothing either: in shadow it
// says who would have had to go.
func (h *Host) Reclaim() Reclaim {
	switch {
	case h.Enforcement() == Observe:
		return ReclaimOff
	case h.Enforcement() == Shadow && h.cfg.Reclaim == ReclaimOn:
		return ReclaimDryRun
	}
	return h.cfg.Reclaim
}

// reclaim pays a lost bet, before the kernel does. It goes by a full sample, for which it asks,
// takes as many as cover what is lacking, and then waits to see that back.
func (h *Host) reclaim(full bool) {
	r, d := &h.meter.reading, &h.debt
	if !r.Lost(h.cfg.Marks) {
		d.lost, d.told = false, nil
		d.ordered = d.ordered && h.pending() // or the next loss would wait for what came back
		return
	}
	if !d.lost {
		d.lost, h.fx.Lost = true, true
		h.tally.lost++
	}
	switch {
	case h.Reclaim() == ReclaimOff || h.awaitsBack():
		return
	case !full:
		h.fx.Measure = true
		return
	}
	victims := pressure.Victims(h.candidates(), r.Deficit().Sub(h.named()))
	d.ordered, d.at, d.vain, d.seen = true, h.now, len(victims) == 0, false
	for i := range victims {
		h.evict(&victims[i])
	}
}

// named is what those hold who were named in a dry run and are still there. It would be back: what
// they were named for is lacking for no one else.
func (h *Host) named() (held gate.Bytes) {
	for _, s := range h.sandboxes {
		if h.debt.told[Ref{s.ID, s.Epoch}] {
			held = held.Add(s.Usage.Resident)
		}
	}
	return held
}

// awaitsBack says whether what was ordered may still come back. When the last one is gone, the
// sample at hand may have been taken before that; the next one was not.
func (h *Host) awaitsBack() bool {
	d := &h.debt
	switch {
	case !d.ordered || h.now-d.at >= backWithin:
		return false
	case h.pending():
		return true
	}
	seen := d.seen
	d.seen = true
	return !seen
}

// pending says whether somebody has not gone yet who was told to go last, or nobody will.
func (h *Host) pending() bool {
	if h.debt.vain || h.Reclaim() == ReclaimDryRun {
		return true
	}
	for _, s := range h.sandboxes {
		if s.Evicting != "" && s.orderedAt == h.debt.at {
			return true
		}
	}
	return false
}

// candidates are those that could give something back now, whoever may be asked to.
func (h *Host) candidates() (all []pressure.Candidate) {
	for _, s := range h.sandboxes {
		if s.Phase != Running || s.Stopping || s.Evicting != "" || h.debt.told[Ref{s.ID, s.Epoch}] {
			continue
		}
		all = append(all, h.candidate(s))
	}
	return all
}

func (h *Host) candidate(s *Sandbox) pressure.Candidate {
	return pressure.Candidate{
		ID: s.ID, Stateful: s.Ask.Stateful, Priority: s.Ask.Priority, IdleSince: s.Active,
		Resident: s.Usage.Resident, Reserve: gate.Cover(s.Ask, h.cfg.Mode, s.Usage),
	}
}

// evict tells one sandbox to go, or tells that it would have to.
func (h *Host) evict(c *pressure.Candidate) {
	s, r := h.sandboxes[c.ID], &h.meter.reading
	e := Eviction{
		ID: s.ID, Epoch: s.Epoch, Identity: s.Identity, Process: s.Process, At: h.now, By: Ordered,
		Priority: c.Priority, Idle: max(h.now-c.IdleSince, 0), Resident: c.Resident, Overshoot: c.Overshoot(),
		Free: r.Free, Headroom: r.Headroom, Deficit: r.Deficit(),
	}
	if h.Reclaim() == ReclaimDryRun {
		e.By = WouldGo
		h.tally.wouldEvict++
		if h.debt.told == nil {
			h.debt.told = map[Ref]bool{}
		}
		h.debt.told[Ref{s.ID, s.Epoch}] = true
		h.ownDeed("evict "+s.ID+" (dry-run: it goes on)", e.Why())
	} else {
		s.Evicting, s.orderedAt = e.Why(), h.now
		h.recordSandbox(s)
	}
	h.fx.Evictions = append(h.fx.Evictions, e)
	if h.evictions = append(h.evictions, e); len(h.evictions) > lastEvictions {
		h.evictions = slices.Delete(h.evictions, 0, len(h.evictions)-lastEvictions)
	}
}

// evicted notes that one which was told to go is gone, and by what.
func (h *Host) evicted(s *Sandbox, by Means) {
	if s.Evicting == "" {
		return
	}
	by = cmp.Or(by, GoneBefore)
	h.tally.evicted++
	for i := range h.evictions {
		if e := &h.evictions[i]; e.ID == s.ID && e.Epoch == s.Epoch && e.By == Ordered {
			e.By, e.Gone = by, h.now
		}
	}
	h.ownDeed("evict "+s.ID+": "+string(by), s.Evicting)
}

// self is who does what the host itself decided.
func (h *Host) self() string { return "host " + h.cfg.ID }

// ownDeeds is how many deeds of its own a host keeps for the audit: one without replicas would
// keep them for ever.
const ownDeeds = 256

// ownDeed notes what the host did by itself. The oldest of them give way; those of people never.
func (h *Host) ownDeed(what, reason string) {
	var oldest int64
	n := 0
	for _, d := range h.deeds {
		if d.By != h.self() {
			continue
		}
		if n++; oldest == 0 || d.N < oldest {
			oldest = d.N
		}
	}
	if n >= ownDeeds {
		h.deedAcked(AckedDeed{N: oldest})
	}
	h.deed(h.self(), what, reason)
}

// seeWork notes whether a sandbox does something. Of one whose work is not known it is assumed:
// then only the other figures tell who goes first.
func (h *Host) seeWork(s *Sandbox, r *Resident) {
	span := h.now - s.workedAt
	if s.seen && span < idleSpan {
		return
	}
	if !s.seen || r.CPU < 0 || r.CPU < s.worked || r.CPU-s.worked >= span/idleBelow {
		s.Active = h.now
	}
	s.seen, s.worked, s.workedAt = true, r.CPU, h.now
}

// VictimOrder names everybody in the order in which they would go, those that never go last.
func (h *Host) VictimOrder() (first []Ref, never []Ref) {
	var all []pressure.Candidate
	for _, s := range h.sandboxes {
		switch {
		case s.Phase != Running:
		case s.Ask.Stateful:
			never = append(never, Ref{s.ID, s.Epoch})
		default:
			all = append(all, h.candidate(s))
		}
	}
	for _, c := range pressure.Order(all) {
		first = append(first, Ref{c.ID, h.sandboxes[c.ID].Epoch})
	}
	slices.SortFunc(never, func(a, b Ref) int { return strings.Compare(a.ID, b.ID) })
	return first, never
}
