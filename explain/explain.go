// Package explain says of a no whose it is, how near it was to a yes, and what would have made
// it one: Facts in, Explanation out.
//
// It decides nothing and looks nothing up. A change that it names is one that admits the same
// request if nothing else moves meanwhile; who has to make it is said with it, since a caller
// can ask for less but cannot raise a cap.
//
// Worked: an ask of 4,096 MiB is charged 1,024 on a working-set host that can promise 812. Its
// nearest miss is "h-17 lacks 212 MiB of 1,024"; with the usual quarter as reserve it would
// take 3,248 MiB there.
//
// Its functions are pure, and may be called from any goroutine.
package explain

import (
	"github.com/plimsoll-project/plimsoll/api"
)

// Explanation is what there is to say of a no.
type Explanation struct {
	Line    string   `json:"line"`              // whose no it is, with its numbers
	Nearest string   `json:"nearest,omitempty"` // the host that came closest, and what it lacks
	Changes []Change `json:"changes"`           // each alone admits; what the caller can do first
}

// Kind is what kind of change would admit.
type Kind string

// The kinds.
const (
	Wait       Kind = "wait"       // time alone: a slot, room or a host comes back
	Smaller    Kind = "smaller"    // the request asks for less
	Request    Kind = "request"    // another field of the request, or another value
	Elsewhere  Kind = "elsewhere"  // another host than the pinned one
	QueueUp    Kind = "queue"      // a place in the line, and the yes when it is its turn
	Limit      Kind = "limit"      // a cap, a share, a quota or a bound is raised
	HostDeed   Kind = "host"       // an operator's order to a host: uncordon, bury
	AddHost    Kind = "add"        // another host, or an agent that is heard again
	Permission Kind = "permission" // a token, a role, a right
	Server     Kind = "server"     // whoever runs the server mends it
)

// Who can make a change.
type Who string

// The two.
const (
	Caller   Who = "caller"
	Operator Who = "operator"
)

// Change is one thing that would have admitted the request.
type Change struct {
	Kind   Kind   `json:"kind"`
	Who    Who    `json:"who"`
	Target string `json:"target,omitempty"` // pool, host, tenant, class, consumer or field
	From   int64  `json:"from,omitempty"`   // where a number changes, in the unit of the field or setting
	To     int64  `json:"to,omitempty"`
	// Command is the plimsoll command that does it; empty where the request changes, or time does it.
	Command string `json:"command,omitempty"`
	// Patch is what changes of the request, as a JSON merge patch (RFC 7396) of its body.
	Patch string `json:"patch,omitempty"`
	Why   string `json:"why"` // for people, in one sentence
}

// Of explains a no.
func Of(f *Facts) Explanation {
	e := Explanation{Line: line(f), Changes: []Change{}}
	if aboutRoom(f) {
		e.Nearest = nearest(f)
	}
	for _, c := range changes(f) {
		if c.Kind != "" {
			e.Changes = append(e.Changes, c)
		}
	}
	if len(e.Changes) == 0 { // too little is known
		e.Changes = []Change{remedy(f)}
	}
	return e
}

// aboutRoom says whether it is hosts' room that was missing: by its code, or because a slot was
// to be had and no host.
func aboutRoom(f *Facts) bool {
	switch f.Code {
	case api.NoCapacity, api.Infeasible:
		return true
	case api.WaitingCapacity, api.PoolFull, api.QueueTimeout:
		return f.lacks() == forHost
	}
	return false
}
