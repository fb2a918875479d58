package host

import (
	"math"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// After the kernel has killed for want of the host's memory, whatever was believed of that
// memory was wrong. The intake shuts for a dwell, and what the host promises grows step by
// step: so much of its smallest limit in each, until what it promised has shown what it holds.
//
// Worked: 32 GiB and a dwell of 15 s are 4 GiB within the first 15 s (in which the intake is
// shut anyway), 8 GiB within the next, … and after two minutes as much as there is room for.
const rampSteps = 8

// ramp is how far a host has come after an out-of-memory kill.
type ramp struct {
	on      bool
	since   Instant
	step    int64
	granted gate.Bytes // promised within this step
}

// Kills is what a host remembers of the kernel's out-of-memory killer.
type Kills struct {
	Known  bool    `json:"known,omitempty"`
	Closed bool    `json:"closed,omitempty"` // the agent's last life ended with this word, and was not killed
	N      int64   `json:"n,omitempty"`      // how often it killed, since the machine started
	Ramped bool    `json:"ramped,omitempty"`
	Ramp   Instant `json:"ramp,omitempty"` // since when the host grows anew
}

// counts takes over how often the kernel has killed. That it did so while the agent was away,
// without having said that it would be, is taken for the reason why.
func (h *Host) counts(e KillCount) {
	was := h.kills
	if was.Known && was.N == e.N && !was.Closed {
		return
	}
	h.kills.N, h.kills.Known, h.kills.Closed = e.N, true, false
	if was.Known && e.N > was.N && e.Away && !was.Closed {
		h.tally.killed += e.N - was.N
		h.startRamp()
	}
	h.recordKills()
}

// closing notes that the agent ends by itself.
func (h *Host) closing() {
	h.kills.Closed = true
	h.recordKills()
}

// outOfMemory shuts the intake and begins to grow anew.
func (h *Host) outOfMemory() {
	h.startRamp()
	h.recordKills()
}

func (h *Host) startRamp() {
	h.ramp = ramp{on: true, since: h.now}
	h.valve.Close(h.now, pressure.OutOfMemory)
}

// rampOn brings the ramp up to the present.
func (h *Host) rampOn() {
	if !h.ramp.on {
		return
	}
	step := int64((h.now - h.ramp.since) / h.cfg.Marks.Dwell)
	switch {
	case step >= rampSteps:
		h.ramp = ramp{}
		h.recordKills()
	case step > h.ramp.step:
		h.ramp.step, h.ramp.granted = step, 0
	}
}

// rampLeft is what may be promised within this step of the ramp; without one, anything.
func (h *Host) rampLeft() gate.Bytes {
	if !h.ramp.on {
		return math.MaxInt64
	}
	return gate.FromMiB(h.limit().Scale(h.ramp.step+1, rampSteps).Sub(h.ramp.granted).Positive().FloorMiB())
}

// grants notes a promise.
func (h *Host) grants(need gate.Bytes) {
	if h.ramp.on {
		h.ramp.granted = h.ramp.granted.Add(need)
	}
}

// offers is what an account leaves to be promised, as far as the ramp has come.
func (h *Host) offers(a gate.Account) gate.Bytes { return min(gate.Admittable(a), h.rampLeft()) }

// rampDue is the instant of the next step.
func (h *Host) rampDue() Instant {
	return h.ramp.since + Instant(h.ramp.step+1)*h.cfg.Marks.Dwell
}

func (h *Host) recordKills() {
	h.kills.Ramped, h.kills.Ramp = h.ramp.on, h.ramp.since
	h.record(Record{Kind: RecordKills, Kills: h.kills, Gone: h.kills == (Kills{})})
}

func (h *Host) adoptKills(k Kills) {
	if h.kills = k; k.Ramped {
		h.ramp = ramp{on: true, since: k.Ramp}
	}
}
