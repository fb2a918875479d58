// Package pressure decides when a host's intake is shut, and, when a bet is lost, in
// which order it is paid.
//
// It measures nothing and stops nothing. PSI alone never shuts the valve: a sandbox that
// thrashes inside its own limit raises it on an empty host, and newer kernels hardly
// raise it at all. Memory that is already promised never shuts it either.
//
// Worked: with a headroom of 256 MiB the valve shuts below 128 MiB free; or below 512 MiB
// free with PSI some at 10 % or more; or when growth that no charge covers, say 100 MiB/s,
// would eat the 400 MiB that are neither used nor promised within 5 s. It opens after a
// whole dwell of 15 s that was calm.
//
// Not safe for concurrent use.
package pressure

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Instant is a reading of the host's own boot-time clock.
type Instant = time.Duration

// Marks are the lines at which the valve moves. PSI values are in hundredths of a percent.
type Marks struct {
	SomeShut int64         // PSI some avg10 at or above this is high; 1000
	SomeOpen int64         // below this is calm; 500
	FullLost int64         // PSI full avg10 at or above this is high; 500
	Dwell    time.Duration // calm for this long before it opens; 15 s
	MaxDwell time.Duration // the dwell doubles up to this; 5 min
}

// DefaultMarks are those of the configuration table.
func DefaultMarks() Marks {
	return Marks{SomeShut: 1000, SomeOpen: 500, FullLost: 500, Dwell: 15 * time.Second, MaxDwell: 5 * time.Minute}
}

// How far ahead growth is looked at: it shuts within the first, opens only beyond the second.
const (
	shutAhead = 5
	openAhead = 10
)

// Reading is what one sample says about the host.
type Reading struct {
	Free     gate.Bytes // least room under any limit
	Headroom gate.Bytes
	Spare    gate.Bytes // free − Σ (charge − resident)⁺ − Σ open reservations
	Growth   gate.Bytes // a second, that no charge covers
	PSI      bool       // the kernel gives pressure figures
	Some     int64      // hundredths of a percent, avg10
	Full     int64
}

// Cause says what shut the valve.
type Cause string

// The causes, the strongest first.
const (
	None     Cause = ""
	LowFree  Cause = "free below half the headroom"
	Growing  Cause = "growth that no charge covers"
	Stalling Cause = "memory stalls with little free"
	Losing   Cause = "everything stalls with less free than the headroom"

	OutOfMemory Cause = "the kernel killed for want of memory" // said to the valve, and by no reading
)

// Cause says why this reading shuts the valve, or None.
func (r Reading) Cause(m Marks) Cause {
	switch {
	case r.Free < r.Headroom/2:
		return LowFree
	case r.Growth > 0 && r.eaten(shutAhead):
		return Growing
	case r.PSI && r.Some >= m.SomeShut && r.Free < r.Headroom.Scale(2, 1):
		return Stalling
	case r.Lost(m): // so that whoever must go finds this host shut when it comes back
		return Losing
	}
	return None
}

// Calm says whether this reading lets a shut valve come nearer to opening.
func (r Reading) Calm(m Marks) bool {
	quiet := !r.PSI || r.Some < m.SomeOpen || r.Free > r.Headroom.Scale(5, 2)
	return quiet && r.Free >= r.Headroom && (r.Growth <= 0 || !r.eaten(openAhead))
}

// eaten says whether the growth of so many seconds takes all that is not promised.
func (r Reading) eaten(seconds gate.Bytes) bool { return r.Growth > r.Spare/seconds }

// Lost says whether the bet is lost: something must go before the kernel chooses.
func (r Reading) Lost(m Marks) bool {
	return r.Free < r.Headroom/4 || (r.PSI && r.Full >= m.FullLost && r.Free < r.Headroom)
}

// Deficit is what has to come back when the bet is lost: what lacks of the headroom, which was
// never promised to anybody.
func (r Reading) Deficit() gate.Bytes { return r.Headroom.Sub(r.Free).Positive() }

// Valve is a host's intake: open or shut, with hysteresis.
//
//	       a reading has a cause: at once
//	open ──────────────────────────────────▶ shut ◀─┐ a reading is not calm:
//	     ◀──────────────────────────────────      ──┘ the dwell begins anew
//	       every reading of a whole dwell was calm
type Valve struct {
	marks  Marks
	shut   Cause
	calm   bool    // every reading since calmAt was calm
	calmAt Instant // start of the calm
	opened Instant // when it last opened
	dwell  time.Duration
}

// NewValve returns an open valve.
func NewValve(m Marks) *Valve {
	return &Valve{marks: m, dwell: m.Dwell, opened: -m.MaxDwell}
}

// Shut says what keeps the intake shut, by the last reading that had a cause; None when it
// is open.
func (v *Valve) Shut() Cause { return v.shut }

// Dwell is how long the next calm must last.
func (v *Valve) Dwell() time.Duration { return v.dwell }

// Step takes a reading and says whether the valve moved. It shuts at once and opens only
// after a whole dwell of calm; shutting again within the first dwell (Marks.Dwell, however
// long the last calm had to be) of opening doubles it. So noise moves it no more often than
// once a dwell in the long run, and a full host whose sandboxes jump now and then is not shut
// for minutes each time.
func (v *Valve) Step(now Instant, r Reading) (moved bool) {
	if cause := r.Cause(v.marks); cause != None {
		return v.Close(now, cause)
	}
	if v.shut == None {
		return false
	}
	if !r.Calm(v.marks) {
		v.calm = false
		return false
	}
	if !v.calm {
		v.calm, v.calmAt = true, now
	}
	if now-v.calmAt < v.dwell {
		return false
	}
	v.shut, v.opened = None, now
	return true
}

// Close shuts it, be it for a cause that no reading shows, for a dwell of calm at least.
func (v *Valve) Close(now Instant, cause Cause) (moved bool) {
	v.calm = false
	if v.shut != None {
		v.shut = cause
		return false
	}
	if now-v.opened < v.marks.Dwell {
		v.dwell = min(2*v.dwell, v.marks.MaxDwell)
	} else {
		v.dwell = v.marks.Dwell
	}
	v.shut = cause
	return true
}
