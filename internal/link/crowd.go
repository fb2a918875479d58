package link

import (
	"context"
	"net"

	"connectrpc.com/connect"

	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
)

// Crowd serves many hosts at one address, as who measures a replica with thousands of them
// needs: a replica's hello says which it means. The server given first listens, and refuses
// whoever means none of them.
type Crowd struct {
	front  *Server
	byHost map[string]*Server
}

// NewCrowd returns one of at least one server; Serve runs it.
func NewCrowd(front *Server, others ...*Server) *Crowd {
	c := &Crowd{front: front, byHost: map[string]*Server{}}
	for _, s := range append(others, front) {
		c.byHost[s.Host.ID()] = s
	}
	front.unproven = make(chan struct{}, maxUnproven*len(c.byHost)) // as many as they would take apart
	return c
}

// Serve answers replicas until ctx ends.
func (c *Crowd) Serve(ctx context.Context, l net.Listener) error {
	return c.front.serveAs(ctx, l, c)
}

// Stream serves one replica. It is called by the generated handler.
func (c *Crowd) Stream(ctx context.Context, stream *connect.BidiStream[agentv1.ReplicaFrame, agentv1.AgentFrame]) error {
	return c.front.answer(ctx, stream, func(hello *agentv1.Hello) *Server {
		if s := c.byHost[hello.GetHost()]; s != nil {
			return s
		}
		return c.front
	})
}
