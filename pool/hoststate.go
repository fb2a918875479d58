package pool

import (
	"slices"
	"strings"
)

// HostState is what operators say of a host; what its agent says of itself is its intake.
//
//	        cordon            drain
//	active ◀──────▶ cordoned ───────▶ draining
//	  ▲    uncordon    │                 │ bury (empty, or silent)
//	  └── join ── buried ◀───────────────┘
//
// A host that is active may be drained at once, and each may be buried. A draining one never
// turns back: what it held was moved, and whoever waits for it to be empty must be able to
// rely on that. A buried one joins anew, with a new credential.
type HostState string

// The states.
const (
	HostActive   HostState = "active"
	HostCordoned HostState = "cordoned" // takes nothing new; what was promised boots
	HostDraining HostState = "draining" // boots nothing any more; what runs goes on
	HostBuried   HostState = "buried"   // nothing of it is believed to run
)

// HostDeed is what an operator does to a host.
type HostDeed string

// The deeds.
const (
	Cordon   HostDeed = "cordon"
	Uncordon HostDeed = "uncordon"
	Drain    HostDeed = "drain"
	Bury     HostDeed = "bury"
)

// hostDeeds: state -> deed -> the state that it leads to. To say again what holds changes nothing.
var hostDeeds = map[HostState]map[HostDeed]HostState{
	HostActive:   {Cordon: HostCordoned, Uncordon: HostActive, Drain: HostDraining, Bury: HostBuried},
	HostCordoned: {Cordon: HostCordoned, Uncordon: HostActive, Drain: HostDraining, Bury: HostBuried},
	HostDraining: {Drain: HostDraining, Bury: HostBuried},
	HostBuried:   {Bury: HostBuried},
}

// After is the state that a deed leads to; ok is false when it is not legal.
func (s HostState) After(d HostDeed) (to HostState, ok bool) {
	to, ok = hostDeeds[s][d]
	return to, ok
}

// Legal names the deeds that change a host in this state, for people.
func (s HostState) Legal() string {
	var out []string
	for d, to := range hostDeeds[s] {
		if to != s {
			out = append(out, string(d))
		}
	}
	if len(out) == 0 {
		return "none but to join anew"
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
