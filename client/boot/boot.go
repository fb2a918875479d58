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
	MemoryMB int64  // configured size: the limit to boot with
	Waiver   string // shadow or bypass: what let it in without a ticket

	conn    *conn
	stopped chan struct{}
	replies chan Reply    // closed when the connection is
	asking  chan struct{} // holds one token: one question at a time
}

// Redeem gives the ticket up for a charge, and returns when a boot may begin. A refusal is
// an *api.Refusal: not now (503) leaves the ticket good, attempt may place it elsewhere.
func (c Client) Redeem(ctx context.Context, ticket string) (*Start, error) {
	return c.begin(ctx, Request{Op: OpRedeem, Ticket: ticket})
}

func (c Client) begin(ctx context.Context, q Request) (*Start, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s, err := redeem(ctx, conn, q)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func redeem(ctx context.Context, conn *conn, q Request) (*Start, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.send(q); err != nil {
		return nil, err
	}
	for {
		r, err := conn.receive()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil {
			err = r.refusal()
		}
		if err != nil {
			return nil, err
		}
		if r.Event == EvStart {
			s := &Start{
				ID: r.ID, Epoch: r.Epoch, MemoryMB: r.MemoryMB, Waiver: r.Waiver, conn: conn,
				stopped: make(chan struct{}), replies: make(chan Reply, 1), asking: make(chan struct{}, 1),
			}
			go s.listen()
			return s, nil
		}
		if r.Event != EvInLine {
			return nil, fmt.Errorf("the agent answered %q to redeem; is it of another version?", r.Event)
		}
	}
}

// listen sorts what the agent says: an order to stop, or the answer to the last question.
func (s *Start) listen() {
	defer close(s.replies)
	told := false
	for {
		r, err := s.conn.receive()
		switch {
		case err != nil:
			s.conn.Close()
			return
		case r.Event != EvStop:
			select {
			case s.replies <- r:
			default: // an answer that nobody asked for
			}
		case !told:
			close(s.stopped)
			told = true
		}
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

// Done says that the sandbox is gone, or that no boot came of the start. After Track it
// answers once the process has ended, and is refused while that runs on: memory in use is
// not given away on anybody's word.
func (s *Start) Done(ctx context.Context, reason string) error {
	return s.ask(ctx, Request{Op: OpDone, Reason: reason}, EvDone)
}

// Close ends the connection. Before Track that gives everything back.
func (s *Start) Close() error { return s.conn.Close() }

// ask puts one question at a time. Where ctx ends before the answer nobody knows what became
// of it, so the connection ends too: what was tracked by then is watched, and the rest is
// given back.
func (s *Start) ask(ctx context.Context, q Request, want string) error {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	stop := context.AfterFunc(ctx, func() { s.conn.Close() })
	defer stop()
	err := s.conn.send(q)
	if err == nil {
		err = s.answer(q, want)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *Start) answer(q Request, want string) error {
	r, open := <-s.replies
	if !open {
		return ErrConnectionLost
	}
	if err := r.refusal(); err != nil {
		return err
	}
	if r.Event != want {
		return fmt.Errorf("the agent answered %q to %s; is it of another version?", r.Event, q.Op)
	}
	return nil
}

// Run has the agent's process driver boot a command and writes its output to stdout and
// stderr until it ends. When ctx ends, the sandbox is stopped. signals are passed on to it.
// A detached command is left to itself once it runs; its Exit is Unknown.
func (c Client) Run(ctx context.Context, ticket string, cmd Command, stdout, stderr io.Writer, signals <-chan int) (Exit, error) {
	return c.run(ctx, Request{Op: OpRun, Ticket: ticket, Command: &cmd}, stdout, stderr, signals)
}

func (c Client) run(ctx context.Context, q Request, stdout, stderr io.Writer, signals <-chan int) (Exit, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return Exit{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	over := make(chan struct{})
	defer close(over)
	r := run{conn: conn, detach: q.Command.Detach, stdout: stdout, stderr: stderr}
	if err = conn.send(q); err == nil {
		go conn.forward(signals, over)
		err = r.follow()
	}
	if err != nil && ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	return r.exit, err
}

// run is one command that the agent boots and reports on.
type run struct {
	conn           *conn
	detach         bool
	stdout, stderr io.Writer
	tracked        bool
	exit           Exit
}

// follow takes the agent's word until the command has ended, or may be left.
func (r *run) follow() error {
	for {
		reply, err := r.conn.receive()
		if errors.Is(err, ErrConnectionLost) && r.tracked {
			return fmt.Errorf("%w: the sandbox goes on, and a restarted agent re-adopts it", err)
		}
		if err == nil {
			err = reply.refusal()
		}
		if err != nil {
			return err
		}
		switch reply.Event {
		case EvExited:
			if reply.Exit == nil {
				return errors.New("the agent told an end and not which; is it of another version?")
			}
			r.exit = *reply.Exit
			return nil
		case EvTracked:
			r.tracked = true
			if r.detach {
				r.exit = Exit{Unknown: true}
				return nil
			}
		case EvOutput:
			if err := r.write(reply); err != nil {
				return fmt.Errorf("write the sandbox's output: %w", err)
			}
		}
	}
}

func (r *run) write(reply Reply) error {
	w := r.stdout
	if reply.Stream == "stderr" {
		w = r.stderr
	}
	_, err := w.Write(reply.Data)
	return err
}

// ErrConnectionLost is how a call ends when the agent goes away. What was tracked goes on;
// what was not is given back.
var ErrConnectionLost = errors.New("the connection to the agent was lost")

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

// send writes one line. One that the agent did not take to its end may have its answer
// already, so a lost connection is left for receive to find.
func (c *conn) send(q Request) error {
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if len(line) > MaxLine {
		return &api.Refusal{Code: api.BodyTooLarge, Detail: fmt.Sprintf("command and environment take %d bytes, %d are the most; pass large data by file", len(line), MaxLine)}
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	c.Write(append(line, '\n'))
	return nil
}

func (c *conn) receive() (Reply, error) {
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return Reply{}, ErrConnectionLost
	}
	var r Reply
	if err := json.Unmarshal(line, &r); err != nil {
		return Reply{}, fmt.Errorf("the agent's line is not JSON: %w", err)
	}
	return r, nil
}

func (c *conn) forward(signals <-chan int, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case n, open := <-signals:
			if !open {
				return
			}
			c.send(Request{Op: OpSignal, Signal: n})
		}
	}
}

func (r Reply) refusal() error {
	if r.Event != EvRefused {
		return nil
	}
	return &api.Refusal{Code: r.Code, Detail: r.Detail}
}
