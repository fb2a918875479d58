package control

import "context"

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
