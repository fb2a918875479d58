package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
)

// Host is what is served: an agent.Agent.
type Host interface {
	ID() string
	Incarnation() int64
	Post(ctx context.Context, tag uint64, ev host.Event, back chan<- agent.Reply) error
	PostLook(ctx context.Context, tag uint64, firm bool, look func(*host.Host), back chan<- agent.Reply) error
	Subscribe() *agent.Feed
	Unsubscribe(*agent.Feed)
	// OutOfGate is what runs beside what is held, as it is now.
	OutOfGate(held *host.Held) []host.Stray
	// Clear ends what runs out of gate under an id.
	Clear(ctx context.Context, id string) error
}

// ServerOptions are what an agent needs to be reached.
type ServerOptions struct {
	Host    Host
	Keys    *Keys
	Version string
	TLS     *tls.Config // nil: plaintext, which is for the loopback alone; see Identity
	Log     *slog.Logger
	// Stranger is called when a replica and this host hold no ticket key in common: to
	// register again may mend that. Nil: nobody is told.
	Stranger func()

	pace pace // zero: as it should be
}

// Server is the agent's end of the streams.
type Server struct {
	ServerOptions
	unproven chan struct{} // a token for each stream that has proved nothing yet
	live     sync.WaitGroup
	proved   atomic.Int64 // streams that are served
}

// Bounds of the streams at once. A replica needs one.
const (
	maxUnproven = 64
	maxStreams  = 64 // of one connection
)

// NewServer returns a server; Serve runs it.
func NewServer(o ServerOptions) *Server {
	o.pace = o.pace.orDefault()
	return &Server{ServerOptions: o, unproven: make(chan struct{}, maxUnproven)}
}

// Connected is how many replicas are.
func (s *Server) Connected() int { return int(s.proved.Load()) }

// Serve answers replicas until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serveAs(ctx, l, s)
}

// serveAs answers at a listener by a service, until ctx ends.
func (s *Server) serveAs(ctx context.Context, l net.Listener, service agentv1.AgentServiceHandler) error {
	protocols := new(http.Protocols)
	mux := http.NewServeMux()
	mux.Handle(agentv1.NewAgentServiceHandler(service,
		connect.WithReadMaxBytes(maxFromReplica), connect.WithCompression("gzip", nil, nil)))
	server := &http.Server{
		Handler: withConnection(mux), Protocols: protocols, ReadHeaderTimeout: helloWithin, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		// A client of Go keeps a buffer of this size for each open stream.
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: 16 << 10, MaxConcurrentStreams: maxStreams,
			SendPingTimeout: s.pace.ping, PingTimeout: s.pace.pong,
		},
	}
	if s.TLS == nil {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
		server.TLSConfig = forReplicas(s.TLS)
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	var err error
	if s.TLS == nil {
		err = server.Serve(l)
	} else {
		err = server.ServeTLS(l, "", "")
	}
	s.live.Wait()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve replicas: %w", err)
	}
	return nil
}

// connection is what a stream needs of the connection below it.
type connection struct {
	peer *x509.Certificate // nil in plaintext

	mu        sync.Mutex               // guards what follows
	deadlines *http.ResponseController // nil once the handler has returned: it may not be used then
}

type connectionKey struct{}

func withConnection(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &connection{deadlines: http.NewResponseController(w)}
		defer c.over()
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			c.peer = r.TLS.PeerCertificates[0]
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), connectionKey{}, c)))
	})
}

// cut ends what is read and written at once.
func (c *connection) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if past := time.Unix(1, 0); c.deadlines != nil {
		c.deadlines.SetReadDeadline(past)
		c.deadlines.SetWriteDeadline(past)
	}
}

func (c *connection) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadlines = nil
}

// Stream serves one replica. It is called by the generated handler.
func (s *Server) Stream(ctx context.Context, stream *connect.BidiStream[agentv1.ReplicaFrame, agentv1.AgentFrame]) error {
	return s.answer(ctx, stream, func(*agentv1.Hello) *Server { return s })
}

// answer serves one replica, in the name of the host that its hello asks for.
func (s *Server) answer(ctx context.Context, stream *connect.BidiStream[agentv1.ReplicaFrame, agentv1.AgentFrame], whose func(*agentv1.Hello) *Server) error {
	s.live.Add(1)
	defer s.live.Done()
	conn, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return connect.NewError(connect.CodeInternal, errors.New("the stream has no connection"))
	}
	s, replica, err := s.admit(conn, stream, whose)
	switch {
	case errors.Is(err, errCrowded):
		return connect.NewError(connect.CodeResourceExhausted, err)
	case errors.Is(err, ErrRefused):
		s.Log.Warn("a stream was refused", "peer", stream.Peer().Addr, "err", err)
		return connect.NewError(connect.CodeFailedPrecondition, err)
	case err != nil:
		return err
	}
	s.Log.Info("a replica is connected", "replica", replica, "peer", stream.Peer().Addr)
	s.proved.Add(1)
	defer s.proved.Add(-1)
	err = s.serve(ctx, conn, stream)
	s.Log.Info("a replica is gone", "replica", replica, "why", err)
	return connect.NewError(connect.CodeAborted, err)
}

var errCrowded = errors.New("too many streams that have not proved who they are")

// admit hears who the other end is, and has it proved.
func (s *Server) admit(conn *connection, stream *connect.BidiStream[agentv1.ReplicaFrame, agentv1.AgentFrame], whose func(*agentv1.Hello) *Server) (of *Server, replica string, err error) {
	select {
	case s.unproven <- struct{}{}:
		defer func() { <-s.unproven }()
	default:
		return s, "", errCrowded
	}
	timer := time.AfterFunc(helloWithin, conn.cut)
	defer timer.Stop()
	f, err := stream.Receive()
	if err != nil {
		return s, "", malformed(err)
	}
	hello := f.GetHello()
	of = whose(hello)
	if err := of.judge(hello, conn); err != nil {
		return of, "", err
	}
	replica, err = of.shake(hello, stream)
	return of, replica, err
}

// shake has the replica prove itself, and then proves itself.
func (s *Server) shake(hello *agentv1.Hello, stream *connect.BidiStream[agentv1.ReplicaFrame, agentv1.AgentFrame]) (replica string, err error) {
	keys := s.Keys.Current()
	h := handshake{
		host: s.Host.ID(), replica: hello.GetReplica(), incarnation: s.Host.Incarnation(),
		replicaMinor: hello.GetMinor(), agentMinor: Minor, replicaNonce: hello.GetNonce(), agentNonce: newNonce(),
	}
	if err := stream.Send(&agentv1.AgentFrame{Hello: &agentv1.Hello{
		Major: Major, Minor: Minor, Version: s.Version, Host: h.host, Replica: h.replica,
		Incarnation: h.incarnation, Nonce: h.agentNonce, KeyIds: keys.IDs(),
	}}); err != nil {
		return "", err
	}
	if _, ok := common(&keys, hello.GetKeyIds()); !ok {
		if s.Stranger != nil {
			s.Stranger()
		}
		return "", fmt.Errorf("%w: replica %q and this host hold no ticket key in common", ErrRefused, short(h.replica))
	}
	f, err := stream.Receive()
	if err != nil {
		return "", malformed(err)
	}
	if err := h.check(&keys, fromReplica, f.GetProof()); err != nil {
		return "", err
	}
	proof, err := h.prove(&keys, fromAgent, f.GetProof().GetKeyId())
	if err != nil {
		return "", err
	}
	return h.replica, stream.Send(&agentv1.AgentFrame{Proof: proof})
}

// judge says what is wrong with a replica's hello.
func (s *Server) judge(hello *agentv1.Hello, conn *connection) error {
	if err := checkHello(hello); err != nil {
		return err
	}
	if hello.GetHost() != s.Host.ID() {
		return fmt.Errorf("%w: this is host %q, and not %q", ErrRefused, s.Host.ID(), short(hello.GetHost()))
	}
	if conn.peer != nil {
		return isIn(conn.peer, replicaURI+hello.GetReplica())
	}
	return nil
}

// malformed tells a frame that is none, or too large, from a connection that broke.
func malformed(err error) error {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeResourceExhausted, connect.CodeInternal, connect.CodeUnimplemented:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the stream ended before it was proved whose it is", ErrRefused)
	}
	return err
}
