package control

import (
	"context"

	"github.com/plimsoll-project/plimsoll/registry"
)

// Dialer opens one connection to a registered host's agent.
type Dialer interface {
	Dial(ctx context.Context, h RegisteredHost) (Conn, error)
}

// Conn is a Link and a Feed that end together: Next fails when the connection is over.
type Conn interface {
	Link
	Feed
	Close() error
}

// HostState is an operator's word on a host, the same for every replica.
type HostState = registry.State

// The states. A buried host is forgotten; nothing else forgets one.
const (
	HostActive   = registry.Active
	HostCordoned = registry.Cordoned
	HostDraining = registry.Draining
	HostBuried   = registry.Buried
)
