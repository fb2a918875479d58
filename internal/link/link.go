// Package link is the network between replicas and host agents: one stream for each pair,
// dialled by the replica. Both ends are here.
//
//	control.Gateway ── Dialer ─▶ Conn ══ frames ══▶ Server ── Post ─▶ agent.Agent
//	                  (Link, Feed)  ◀══ verdicts ══            ◀ Feed ─
//
// It decides nothing about room: it carries the agent's own words. What it does decide is who
// may speak: each end proves itself by an HMAC over the other's nonce, under a key derived
// for that host alone (proof.go). And it tells when the other end is gone: a connection on
// which nothing is heard for 16 s is over, and so are the calls that wait on it, with
// an unknown outcome.
//
// Worked: 40 reserves that are asked for while a frame is being written go out as one next
// frame; the agent steps them as one batch, writes its log once, and their answers come back
// as one frame with one verdict.
//
// All of it may be called from any goroutine.
package link

import (
	"errors"
	"time"
)

// The protocol's version. An end refuses a major version that it does not know, and ignores
// fields that it does not know.
const (
	Major = 1
	Minor = 0
)

// pace is how soon a dead connection is found, well within the 30 s after which a host is
// silent: the kernel's word by pings, the process's by heartbeats.
type pace struct {
	beat, silent time.Duration // a heartbeat is sent this often; without one for so long it is over
	ping, pong   time.Duration // a ping is sent after so long without a frame, and waits so long
}

func (p pace) orDefault() pace {
	if p == (pace{}) {
		return pace{beat: 5 * time.Second, silent: 16 * time.Second, ping: 8 * time.Second, pong: 8 * time.Second}
	}
	return p
}

const helloWithin = 10 * time.Second // for a handshake

// Bounds of what one end takes from the other.
const (
	maxFromReplica = 4 << 20  // bytes of a frame
	maxFromAgent   = 32 << 20 // a view of many thousand sandboxes
	maxAsks        = 512      // in one frame
	maxOutstanding = 256      // asks of one stream that are not answered
	maxWord        = 256      // bytes of an id or a version in a hello
	nonceSize      = 32
)

// Errors of a connection. Whoever waits on one that ends gets the reason.
var (
	ErrSilent  = errors.New("the connection is silent: nothing was heard for too long")
	ErrClosed  = errors.New("the connection was closed")
	ErrRefused = errors.New("refused")
)
