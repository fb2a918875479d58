package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"connectrpc.com/connect"

	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/control"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// DialerOptions are what a replica needs to reach agents.
type DialerOptions struct {
	Replica string         // its id
	Version string         // of the program
	Keys    ticket.Keyring // see SetKeys
	Allow   []netip.Prefix // the only addresses that are dialled
	TLS     *tls.Config    // nil: plaintext, which is for the loopback alone; see Identity
	// Acknowledged is called when a host holds other keys than before; nil: nobody asks.
	Acknowledged func()

	pace pace // zero: as it should be
}

// Dialer opens streams to agents, and keeps the hosts that are connected in step with the
// ticket keys.
type Dialer struct {
	DialerOptions

	mu    sync.Mutex // guards what follows
	ring  ticket.Keyring
	conns map[*Conn]bool // that are open
}

// NewDialer returns a dialer with no connection.
func NewDialer(o DialerOptions) *Dialer {
	o.pace = o.pace.orDefault()
	return &Dialer{DialerOptions: o, ring: o.Keys, conns: map[*Conn]bool{}}
}

// Dial opens the stream to a host's agent: both have proved who they are, and the host has
// answered which ticket keys it holds. Ctx bounds the dialling, not the stream.
func (d *Dialer) Dial(ctx context.Context, h control.RegisteredHost) (control.Conn, error) {
	c, err := d.dial(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("reach the agent of host %s at %s: %w", h.ID, h.Endpoint, err)
	}
	return c, nil
}

func (d *Dialer) dial(ctx context.Context, h control.RegisteredHost) (*Conn, error) {
	address, err := d.address(h.Endpoint)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, helloWithin)
	defer cancel()
	c := d.newConn(h.ID, address)
	stop := context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })
	err = d.handshake(c)
	if err == nil {
		c.start()
		err = d.introduce(ctx, c)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.end(err)
		c.hangUp()
		c.done.Wait()
		return nil, sayWhy(err, context.Cause(c.ctx))
	}
	return c, nil
}

// sayWhy prefers the reason for which the stream was ended to what that looks like.
func sayWhy(err, cause error) error {
	if ended := new(connect.Error); cause != nil && errors.As(err, &ended) && ended.Code() == connect.CodeCanceled {
		return cause
	}
	return err
}

// address is what an endpoint says: host:port, or an URL with nothing else.
func (d *Dialer) address(endpoint string) (string, error) {
	scheme, rest, found := strings.Cut(endpoint, "://")
	if !found {
		rest = endpoint
	}
	rest = strings.TrimSuffix(rest, "/")
	host, port, err := net.SplitHostPort(rest)
	if _, number := strconv.ParseUint(port, 10, 16); err != nil || number != nil || host == "" || strings.ContainsAny(host, "/?#@ ") ||
		found && scheme != "http" && scheme != "https" {
		return "", errors.New("its endpoint is no host:port, nor such an URL; register it with another")
	}
	switch {
	case d.TLS == nil && scheme == "https":
		return "", errors.New("its endpoint demands TLS, and this replica has none configured; set tls.cert, tls.key and tls.ca")
	case d.TLS != nil && scheme == "http":
		return "", errors.New("its endpoint is plaintext, and this replica has TLS configured; configure TLS for that agent too")
	}
	return rest, nil
}

// dialTCP opens one connection, to nothing but what is allowed. It is judged by the address
// that is connected to, whatever name led there.
func (d *Dialer) dialTCP(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: helloWithin, Control: func(_, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to)
		if err != nil {
			return err
		}
		return d.allowed(at.Addr().Unmap())
	}}
	return dialer.DialContext(ctx, "tcp", address)
}

func (d *Dialer) allowed(a netip.Addr) error {
	if d.TLS == nil && !a.IsLoopback() {
		return fmt.Errorf("%s is beyond this machine, and plaintext is not sent there; configure TLS (tls.cert, tls.key, tls.ca)", a)
	}
	for _, p := range d.Allow {
		if p.Contains(a) {
			return nil
		}
	}
	return fmt.Errorf("%s is not among the addresses that this replica may dial; add it to agents.allow", a)
}

func (d *Dialer) newConn(hostID, address string) *Conn {
	c := &Conn{
		host: hostID, replica: d.Replica, pace: d.pace, feed: agent.NewFeed(), wake: make(chan struct{}, 1),
		calls: map[uint64]chan<- result{}, heldOnce: make(chan struct{}), words: listener{host: hostID},
	}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.left, c.changed = func() { d.remove(c) }, func() {}
	if d.Acknowledged != nil {
		c.changed = d.Acknowledged
	}
	transport, hangUp := d.transport(hostID, address)
	c.hangUp = hangUp
	base := url.URL{Scheme: "http", Host: address}
	if d.TLS != nil {
		base.Scheme = "https"
	}
	client := agentv1.NewAgentServiceClient(&http.Client{Transport: transport}, base.String(),
		connect.WithReadMaxBytes(maxFromAgent),
		// Frames are small and many, and what inflates can be a bomb.
		connect.WithAcceptCompression("gzip", nil, nil),
	)
	c.stream = client.Stream(c.ctx)
	return c
}

// transport makes a connection of its own for each stream: to dial anew after a silence must
// not find the connection again that is silent.
func (d *Dialer) transport(hostID, address string) (transport *http.Transport, hangUp func()) {
	var mu sync.Mutex // guards what follows
	var open net.Conn
	hung := false
	keep := func(c net.Conn, err error) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil && hung {
			c.Close()
			return nil, ErrClosed
		}
		open = c
		return c, err
	}
	protocols := new(http.Protocols)
	transport = &http.Transport{
		Protocols: protocols, MaxConnsPerHost: 1, DisableCompression: true,
		HTTP2: &http.HTTP2Config{MaxReadFrameSize: 16 << 10, SendPingTimeout: d.pace.ping, PingTimeout: d.pace.pong},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return keep(d.dialTCP(ctx, address))
		},
	}
	if d.TLS == nil {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
		transport.TLSClientConfig = forHost(d.TLS, hostID)
	}
	return transport, func() {
		mu.Lock()
		hung = true
		c := open
		mu.Unlock()
		if c != nil {
			c.Close()
		}
		transport.CloseIdleConnections()
	}
}

// handshake says hello and proves who this is, first: an agent proves nothing to a stranger.
func (d *Dialer) handshake(c *Conn) error {
	d.mu.Lock()
	keys, err := d.ring.Audience(c.host)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	h := handshake{host: c.host, replica: c.replica, replicaMinor: Minor, replicaNonce: newNonce()}
	f, err := c.exchange(&agentv1.ReplicaFrame{Hello: &agentv1.Hello{
		Major: Major, Minor: Minor, Version: d.Version, Host: c.host, Replica: c.replica, Nonce: h.replicaNonce, KeyIds: keys.IDs(),
	}})
	if err != nil {
		return err
	}
	theirs := f.GetHello()
	if err := checkHello(theirs); err != nil {
		return err
	}
	if theirs.GetHost() != c.host || theirs.GetReplica() != c.replica {
		return fmt.Errorf("%w: host %q answers there", ErrRefused, short(theirs.GetHost()))
	}
	h.incarnation, h.agentMinor, h.agentNonce = theirs.GetIncarnation(), theirs.GetMinor(), theirs.GetNonce()
	id, ok := common(&keys, theirs.GetKeyIds())
	if !ok {
		return fmt.Errorf("%w: the host holds none of this replica's ticket keys; it takes them when it registers again", ErrRefused)
	}
	proof, err := h.prove(&keys, fromReplica, id)
	if err != nil {
		return err
	}
	if f, err = c.exchange(&agentv1.ReplicaFrame{Proof: proof}); err != nil {
		return err
	}
	c.incarnation = h.incarnation
	return h.check(&keys, fromAgent, f.GetProof())
}

func (c *Conn) exchange(f *agentv1.ReplicaFrame) (*agentv1.AgentFrame, error) {
	if err := c.stream.Send(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return c.stream.Receive() // after io.EOF it has the reason
}

// introduce gives the host its keys, now and whenever they change. It waits for the first
// acknowledgement: so whatever is signed for this host it can verify.
func (d *Dialer) introduce(ctx context.Context, c *Conn) error {
	d.mu.Lock()
	file, err := keysFor(d.ring, c.host)
	if err == nil {
		d.conns[c] = true
		c.sendKeys(file)
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if c.ctx.Err() != nil {
		d.remove(c) // it may have ended before it was noted
	}
	select {
	case <-c.heldOnce:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

func keysFor(ring ticket.Keyring, hostID string) (*agentv1.Keys, error) {
	keys, err := ring.Audience(hostID)
	if err != nil {
		return nil, err
	}
	file, err := keys.EncodeFile()
	return &agentv1.Keys{File: file}, err
}

func (d *Dialer) remove(c *Conn) {
	d.mu.Lock()
	delete(d.conns, c)
	d.mu.Unlock()
	c.changed() // a host that is not heard any more keeps no rotation waiting
}

// SetKeys takes other ticket keys in force, and sends every connected host its own.
func (d *Dialer) SetKeys(ring ticket.Keyring) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ring = ring
	for c := range d.conns {
		file, err := keysFor(ring, c.host)
		if err != nil {
			return err
		}
		c.sendKeys(file)
	}
	return nil
}

// Known names the keys that this replica may be said to know, as ticket.Keyring.IDs does: the
// signing one, and of the others those that every connected host holds. A rotation that goes
// by it signs with nothing that a host would call forged.
func (d *Dialer) Known(ids string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := strings.Split(ids, ",")
	known := all[:1:1]
	for _, id := range all[1:] {
		if d.heldByAll(id) {
			known = append(known, id)
		}
	}
	return strings.Join(known, ",")
}

func (d *Dialer) heldByAll(id string) bool {
	for c := range d.conns {
		if !c.holds(id) {
			return false
		}
	}
	return true
}

// Behind names the connected hosts that do not hold a key, for people.
func (d *Dialer) Behind(id string) (hosts []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		if !c.holds(id) {
			hosts = append(hosts, c.host)
		}
	}
	return hosts
}

var _ control.Dialer = (*Dialer)(nil)
