package boot

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/plimsoll-project/plimsoll/api"
)

// Client reaches the agent of this machine.
type Client struct {
	Socket string // path of the agent's Unix socket
}

// Start is a redeemed ticket: memory is charged, and a boot may begin.
type Start struct {
	ID       string // of the admission
	Epoch    int64
	MemoryMB int64 // configured size: the limit to boot with

	conn    *conn
	stopped chan struct{}
	replies chan Reply
	err     error // why replies closed; read after that
}

// Redeem gives the ticket up for a charge, and returns when a boot may begin. A refusal is
// an *api.Refusal: not now (503) leaves the ticket good, attempt may place it elsewhere.
func (c Client) Redeem(ctx context.Context, ticket string) (*Start, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s, err := redeem(ctx, conn, ticket)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func redeem(ctx context.Context, conn *conn, ticket string) (*Start, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.send(Request{Op: OpRedeem, Ticket: ticket}); err != nil {
		return nil, err
	}
	for {
		r, err := conn.receive()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		if r.Event == EvStart {
			s := &Start{ID: r.ID, Epoch: r.Epoch, MemoryMB: r.MemoryMB, conn: conn, stopped: make(chan struct{}), replies: make(chan Reply, 1)}
			go s.listen()
			return s, nil
		}
		if r.Event != EvInLine {
			return nil, fmt.Errorf("agent answered %q to redeem", r.Event)
		}
	}
}

// listen sorts what the agent says: an order to stop, or the answer to the last request.
func (s *Start) listen() {
	defer close(s.replies)
	told := false
	for {
		r, err := s.conn.receive()
		if err != nil && r.Event == "" {
			s.err = err
			return
		}
		if r.Event == EvStop {
			if !told {
				close(s.stopped)
			}
			told = true
			continue
		}
		s.replies <- r
	}
}

// Stopped is closed when the admission was released: the sandbox should be ended.
func (s *Start) Stopped() <-chan struct{} { return s.stopped }

// Track names the sandbox's main process and gives the start back. From here on the agent
// watches the process; the connection may close.
func (s *Start) Track(ctx context.Context, pid int) error {
	return s.ask(ctx, Request{Op: OpTrack, Pid: pid}, EvTracked)
}

// TrackCgroup is Track for a sandbox that fills a cgroup of its own with more than one
// process tree; pid is the one whose end is the sandbox's.
func (s *Start) TrackCgroup(ctx context.Context, pid int, cgroup string) error {
	return s.ask(ctx, Request{Op: OpTrack, Pid: pid, Cgroup: cgroup}, EvTracked)
}

// Done says that the sandbox is gone, or that no boot came of the start.
func (s *Start) Done(ctx context.Context, reason string) error {
	return s.ask(ctx, Request{Op: OpDone, Reason: reason}, EvDone)
}

// Close ends the connection. Before Track that gives everything back.
func (s *Start) Close() error { return s.conn.Close() }

func (s *Start) ask(ctx context.Context, q Request, want string) error {
	if err := s.conn.send(q); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case r, ok := <-s.replies:
		if !ok {
			return s.err
		}
		if err := r.refusal(); err != nil {
			return err
		}
		if r.Event != want {
			return fmt.Errorf("agent answered %q to %s", r.Event, q.Op)
		}
		return nil
	}
}

// Run has the agent's process driver boot a command and writes its output to stdout and
// stderr until it ends. When ctx ends, the sandbox is stopped. signals are passed on to it.
func (c Client) Run(ctx context.Context, ticket string, cmd Command, stdout, stderr io.Writer, signals <-chan int) (Exit, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return Exit{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.send(Request{Op: OpRun, Ticket: ticket, Command: &cmd}); err != nil {
		return Exit{}, err
	}
	over := make(chan struct{})
	defer close(over)
	go conn.forward(signals, over)
	for {
		r, err := conn.receive()
		switch {
		case ctx.Err() != nil:
			return Exit{}, context.Cause(ctx)
		case err != nil:
			return Exit{}, err
		case r.Event == EvExited && r.Exit != nil:
			return *r.Exit, nil
		case r.Event == EvTracked && cmd.Detach:
			return Exit{Unknown: true}, nil
		case r.Event == EvOutput && r.Stream == "stderr":
			_, err = stderr.Write(r.Data)
		case r.Event == EvOutput:
			_, err = stdout.Write(r.Data)
		}
		if err != nil {
			return Exit{}, fmt.Errorf("write the sandbox's output: %w", err)
		}
	}
}

// ErrConnectionLost is how Run ends when the agent goes away: the sandbox goes on, and a
// restarted agent re-adopts it.
var ErrConnectionLost = errors.New("the connection to the agent was lost; the sandbox goes on")

type conn struct {
	net.Conn
	lines *bufio.Reader

	sending sync.Mutex // guards writes: whole lines only
}

func (c Client) dial(ctx context.Context) (*conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return nil, fmt.Errorf("reach the agent at %s: %w; is plimsoll up running on this machine?", c.Socket, err)
	}
	return &conn{Conn: nc, lines: bufio.NewReaderSize(nc, 64<<10)}, nil
}

func (c *conn) send(q Request) error {
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if _, err := c.Write(append(line, '\n')); err != nil {
		return ErrConnectionLost
	}
	return nil
}

// receive reads one line; a refusal comes back as its error.
func (c *conn) receive() (Reply, error) {
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return Reply{}, ErrConnectionLost
	}
	var r Reply
	if err := json.Unmarshal(line, &r); err != nil {
		return Reply{}, fmt.Errorf("the agent's line is not JSON: %w", err)
	}
	return r, r.refusal()
}

func (c *conn) forward(signals <-chan int, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case n := <-signals:
			if c.send(Request{Op: OpSignal, Signal: n}) != nil {
				return
			}
		}
	}
}

func (r Reply) refusal() error {
	if r.Event != EvRefused {
		return nil
	}
	return &api.Refusal{Code: r.Code, Detail: r.Detail}
}
