package link

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/plimsoll-project/plimsoll/internal/control"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// TestStrangers: a host obeys only who proves that it has its keys, and a replica believes
// only the host that it dialled. Each is told what is wrong.
func TestStrangers(t *testing.T) {
	other := func(t testing.TB) ticket.Keyring { return newRing(t, "k2") }
	forged := func(t testing.TB) ticket.Keyring { // the right id, another secret
		root, err := ticket.NewRoot("k1", ticket.Signing, []byte("what somebody guessed the secret to be"))
		if err != nil {
			t.Fatal(err)
		}
		ring, err := ticket.NewKeyring(root)
		if err != nil {
			t.Fatal(err)
		}
		return ring
	}
	for name, c := range map[string]struct {
		change func(*rig, *ServerOptions, *DialerOptions)
		host   string
		want   string
	}{
		"a replica of another keyring":  {change: func(r *rig, _ *ServerOptions, d *DialerOptions) { d.Keys = other(r.t) }, want: "ticket key"},
		"a replica that guesses":        {change: func(r *rig, _ *ServerOptions, d *DialerOptions) { d.Keys = forged(r.t) }, want: "did not prove"},
		"a host with another's keys":    {change: func(r *rig, s *ServerOptions, d *DialerOptions) { s.Keys = r.openKeys(d.Keys, "h2") }, want: "did not prove"},
		"another host than was dialled": {host: "h7", want: `this is host "h1"`},
		"a host beyond what is allowed": {change: func(_ *rig, _ *ServerOptions, d *DialerOptions) {
			d.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		}, want: "agents.allow"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig, s *ServerOptions, d *DialerOptions) {
				if c.change != nil {
					c.change(r, s, d)
				}
			})
			h := r.registered()
			if c.host != "" {
				h.ID = c.host
			}
			got, err := r.dialer.Dial(within(t), h)
			if err == nil {
				got.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; it should say %q", err, c.want)
			}
			if n := len(r.kernel.listeners()); n != 0 {
				t.Errorf("%d strangers hear news", n)
			}
		})
	}
}

// TestImpostor: whoever answers in a host's place and knows no key of it is not believed, even
// if it hands back what the replica itself has proved.
func TestImpostor(t *testing.T) {
	ring := newRing(t, "k1")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux, protocols := http.NewServeMux(), new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	mux.Handle(agentv1.NewAgentServiceHandler(mirror{}))
	server := &http.Server{Handler: mux, Protocols: protocols}
	go server.Serve(l)
	defer server.Close()
	d := NewDialer(DialerOptions{Replica: "r1", Keys: ring, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	_, err = d.Dial(within(t), control.RegisteredHost{ID: "h1", Endpoint: l.Addr().String()})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "did not prove") {
		t.Error(err)
	}
}

type mirror struct{}

func (mirror) Stream(_ context.Context, s *connect.BidiStream[agentv1.ReplicaFrame, agentv1.AgentFrame]) error {
	for {
		f, err := s.Receive()
		if err != nil {
			return err
		}
		if err := s.Send(&agentv1.AgentFrame{Hello: f.GetHello(), Proof: f.GetProof()}); err != nil {
			return err
		}
	}
}

// raw opens a stream and says whatever a test wants.
func (r *rig) raw() *connect.BidiStreamForClient[agentv1.ReplicaFrame, agentv1.AgentFrame] {
	c := r.dialer.newConn("h1", r.endpoint)
	r.t.Cleanup(func() { c.end(ErrClosed); c.hangUp() })
	return c.stream
}

// TestMalformed: a first frame that is wrong is refused with a clear word.
func TestMalformed(t *testing.T) {
	good := func() *agentv1.Hello {
		return &agentv1.Hello{Major: Major, Host: "h1", Replica: "r1", Nonce: newNonce(), KeyIds: []string{"k1"}}
	}
	for name, c := range map[string]struct {
		change func(*agentv1.Hello)
		want   string
	}{
		"a version to come": {func(h *agentv1.Hello) { h.Major = Major + 1 }, "speaks version 2 of the protocol"},
		"no version":        {func(h *agentv1.Hello) { h.Major = 0 }, "speaks version 0 of the protocol"},
		"no nonce":          {func(h *agentv1.Hello) { h.Nonce = nil }, "a nonce has 32 bytes, not 0"},
		"no replica":        {func(h *agentv1.Hello) { h.Replica = "" }, "names a host and a replica"},
		"a long name":       {func(h *agentv1.Hello) { h.Replica = strings.Repeat("r", 300) }, "longer than"},
		"many keys":         {func(h *agentv1.Hello) { h.KeyIds = make([]string, 17) }, "more than 16 keys"},
		"a huge frame":      {func(h *agentv1.Hello) { h.Version = strings.Repeat("v", maxFromReplica+1) }, "larger than configured max"},
		"no key in common":  {func(h *agentv1.Hello) { h.KeyIds = []string{"k9"} }, "no ticket key in common"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			h, s := good(), r.raw()
			c.change(h)
			s.Send(&agentv1.ReplicaFrame{Hello: h})
			_, err := s.Receive()
			if err == nil { // its hello; the refusal follows
				_, err = s.Receive()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; it should say %q", err, c.want)
			}
		})
	}
	t.Run("no hello", func(t *testing.T) {
		s := newRig(t).raw()
		s.Send(&agentv1.ReplicaFrame{Asks: []*agentv1.Ask{{Id: 1}}})
		if _, err := s.Receive(); err == nil || !strings.Contains(err.Error(), "not a hello") {
			t.Error(err)
		}
	})
	t.Run("another protocol", func(t *testing.T) {
		r := newRig(t)
		c, err := net.Dial("tcp", r.endpoint)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: h1\r\n\r\n")
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	})
}

// TestReplayed: a proof is good for the nonces that it was made for, and for nothing else.
func TestReplayed(t *testing.T) {
	ring := newRing(t, "k1")
	keys, err := ring.Audience("h1")
	if err != nil {
		t.Fatal(err)
	}
	one := handshake{host: "h1", replica: "r1", incarnation: life, replicaNonce: newNonce(), agentNonce: newNonce()}
	p, err := one.prove(&keys, fromReplica, "k1")
	if err != nil || one.check(&keys, fromReplica, p) != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*handshake){
		"another nonce of the agent":   func(h *handshake) { h.agentNonce = newNonce() },
		"another nonce of the replica": func(h *handshake) { h.replicaNonce = newNonce() },
		"another host":                 func(h *handshake) { h.host = "h2" },
		"another replica":              func(h *handshake) { h.replica = "r2" },
		"a name that runs over":        func(h *handshake) { h.host, h.replica = "h1r", "1" },
		"another life":                 func(h *handshake) { h.incarnation++ },
		"a lower version":              func(h *handshake) { h.replicaMinor-- },
	} {
		other := one
		change(&other)
		if other.check(&keys, fromReplica, p) == nil {
			t.Error(name, "is proved by the same")
		}
	}
	if one.check(&keys, fromAgent, p) == nil {
		t.Error("a replica's proof is good as an agent's")
	}
	for _, mac := range [][]byte{nil, p.Mac[:16], append(p.Mac[:31:31], p.Mac[31]^1)} {
		if one.check(&keys, fromReplica, &agentv1.Proof{KeyId: "k1", Mac: mac}) == nil {
			t.Errorf("a proof of %d bytes that is not one", len(mac))
		}
	}
}

// TestHalfOpen: a wire that carries nothing more, and says so to nobody, is found at both ends.
func TestHalfOpen(t *testing.T) {
	for name, p := range map[string]pace{
		"by pings":      {beat: time.Hour, silent: time.Hour, ping: 50 * time.Millisecond, pong: 50 * time.Millisecond},
		"by heartbeats": {beat: 20 * time.Millisecond, silent: 200 * time.Millisecond, ping: time.Hour, pong: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(_ *rig, s *ServerOptions, d *DialerOptions) { s.pace, d.pace = p, p })
			wire := newWire(t, r.endpoint)
			c, err := r.dialer.Dial(within(t), control.RegisteredHost{ID: "h1", Endpoint: wire.endpoint})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Verdict(within(t)); err != nil {
				t.Fatal(err)
			}
			wire.dead.Store(true)
			for { // what came before is told first
				if _, err := c.Next(within(t)); err != nil {
					break
				}
			}
			if _, err := c.Verdict(within(t)); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			for len(r.kernel.listeners()) > 0 {
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// wire passes bytes on until it is dead.
type testWire struct {
	endpoint string
	dead     atomic.Bool
}

func newWire(t *testing.T, to string) *testWire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &testWire{endpoint: l.Addr().String()}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		back := make(chan struct{})
		go func() { defer close(back); w.pass(out, in) }()
		w.pass(in, out)
		in.Close()
		out.Close()
		<-back
	}()
	return w
}

func (w *testWire) pass(to, from net.Conn) {
	b := make([]byte, 32<<10)
	for {
		from.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := from.Read(b)
		if n > 0 && !w.dead.Load() {
			to.Write(b[:n])
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			to.Close()
			return
		}
	}
}

// FuzzFrame: no frame that a stranger can make brings an end down, and none makes a host
// hold what it could not.
func FuzzFrame(f *testing.F) {
	seed := func(m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	reserve, err := askOf(ask("a1", 1, time.Hour))
	if err != nil {
		f.Fatal(err)
	}
	seed(&agentv1.ReplicaFrame{Hello: &agentv1.Hello{Major: 1, Host: "h1", Replica: "r1", Nonce: newNonce()}})
	seed(&agentv1.ReplicaFrame{Asks: []*agentv1.Ask{reserve, {Id: 2, What: &agentv1.Ask_View{}}}})
	v := full[agentVerdict]()
	var says speaker
	seed(&agentv1.AgentFrame{Verdict: says.verdict(&v.Verdict), News: true, Answers: []*agentv1.Answer{{Id: 1}}})
	keys, err := OpenKeys(f.TempDir()+"/keys.json", "h1", func(ticket.AudienceKeys) {}, time.Now)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in agentv1.ReplicaFrame
		if proto.Unmarshal(b, &in) == nil {
			checkHello(in.GetHello())
			keys.Take(t, in.GetKeys().GetFile())
			fuzzAsks(t, &in)
		}
		var out agentv1.AgentFrame
		if proto.Unmarshal(b, &out) == nil {
			fuzzWords(&out)
		}
	})
}
