package agent

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// speaksWithin is how long a connection may be open without a word: one that says nothing
// is nobody's boot, and would hold a descriptor for ever.
const speaksWithin = 10 * time.Second

// Listen opens the boot seam. A socket that a killed agent left is replaced; one that
// answers belongs to another agent and is left alone.
func (a *Agent) Listen() (net.Listener, error) {
	if answers(a.cfg.Socket) {
		return nil, fmt.Errorf("the socket %s is another running agent's; stop that one, or use another data directory", a.cfg.Socket)
	}
	if err := removeSocket(a.cfg.Socket); err != nil {
		return nil, fmt.Errorf("replace the socket that an earlier agent left: %w", err)
	}
	l, err := net.Listen("unix", a.cfg.Socket)
	if err != nil {
		return nil, fmt.Errorf("open the boot seam: %w; its path must be writable and shorter than 108 bytes: set another with host.socket", err)
	}
	// Whoever has a ticket may boot: the ticket is the permission, not the file.
	if err := os.Chmod(a.cfg.Socket, 0o666); err != nil {
		l.Close()
		return nil, fmt.Errorf("open the boot seam to all users: %w", err)
	}
	return l, nil
}

// answers says whether somebody listens on a socket, and goes on to. A child that an ended
// agent was just starting has the socket until it is another program, as it has the locks.
func answers(socket string) bool {
	for deadline := time.Now().Add(lockWithin); ; time.Sleep(lockPause) {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		c.Close()
		if time.Now().After(deadline) {
			return true
		}
	}
}

// removeSocket removes a socket, and nothing else that a wrong path may name.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is no socket; name another path for the boot seam", path)
	}
	return os.Remove(path)
}

// Serve answers on the seam until ctx ends.
func (a *Agent) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var boots sync.WaitGroup
	defer boots.Wait()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil
		case scarce(err):
			// Whoever opened so many connections must not be able to end the agent by it.
			a.cfg.Log.Error("no boot can connect until others are gone", "err", err)
			time.Sleep(acceptPause)
		case err != nil:
			return fmt.Errorf("accept on the boot seam: %w", err)
		default:
			boots.Go(func() { a.serve(ctx, c.(*net.UnixConn)) })
		}
	}
}

const acceptPause = 100 * time.Millisecond

// scarce says whether an error is of the moment: no file descriptors or memory left, or a
// caller that was gone before it was heard.
func scarce(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// seam is one connection: one boot.
type seam struct {
	agent  *Agent
	conn   *net.UnixConn
	lines  chan boot.Request // closed when the other end is gone
	peer   *unix.Ucred
	groups []uint32 // the peer's supplementary ones

	sending sync.Mutex // guards writes: whole lines only
}

func (a *Agent) serve(ctx context.Context, c *net.UnixConn) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	s := &seam{agent: a, conn: c, lines: make(chan boot.Request, 1)}
	if err := s.identify(); err != nil {
		s.refuse(api.Refuse(api.Forbidden, "%s", err))
		return
	}
	over := make(chan struct{})
	defer close(over)
	c.SetReadDeadline(time.Now().Add(speaksWithin))
	go s.read(over)
	first, ok := <-s.lines
	c.SetReadDeadline(time.Time{})
	switch {
	case !ok:
	case first.Op == boot.OpRedeem:
		s.redeem(ctx, first)
	case first.Op == boot.OpRun:
		s.run(ctx, first)
	case first.Op == boot.OpReserve, first.Op == boot.OpRenew, first.Op == boot.OpRelease:
		s.own(ctx, first)
	case first.Op == boot.OpBypass:
		s.bypass(ctx, first)
	case first.Op == boot.OpShow:
		s.show(ctx)
	case first.Op == boot.OpClasses:
		s.lessons(ctx)
	default:
		s.refuse(api.Refuse(api.InvalidRequest, "op %q cannot come first: use reserve, redeem or run", first.Op))
	}
}

// identify asks the kernel who is at the other end.
func (s *seam) identify() error {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	var got error
	err = raw.Control(func(fd uintptr) {
		if s.peer, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); got == nil {
			s.groups, got = peerGroups(int(fd))
		}
	})
	return errors.Join(err, got)
}

func (s *seam) read(over <-chan struct{}) {
	defer close(s.lines)
	in := bufio.NewScanner(s.conn)
	in.Buffer(make([]byte, 0, 4096), boot.MaxLine)
	for in.Scan() {
		var q boot.Request
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			s.refuse(api.Refuse(api.InvalidRequest, "a line is not a request: %s", err))
			return
		}
		select {
		case s.lines <- q:
		case <-over:
			return
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		s.refuse(api.Refuse(api.BodyTooLarge, "a line is longer than %d bytes", boot.MaxLine))
	}
}

func (s *seam) send(r boot.Reply) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	_, err = s.conn.Write(append(line, '\n'))
	return err
}

func (s *seam) refuse(err error) {
	r, ok := api.AsRefusal(err)
	if !ok {
		r = api.Refuse(api.Internal, "%s", err)
	}
	s.send(boot.Reply{Event: boot.EvRefused, Code: r.Code, Detail: r.Detail})
}

// begin redeems and waits for the start. Nil means that everything was given back, and
// the other end was told if it is still there.
func (s *seam) begin(ctx context.Context, q boot.Request) *session {
	booter := s.agent.booter
	b, inLine, err := booter.redeemOrWaive(ctx, q)
	if err != nil {
		s.refuse(err)
		return nil
	}
	if inLine && !s.wait(ctx, b) {
		booter.abandon(b, "abandoned while it waited for a start")
		return nil
	}
	return b
}

// wait holds a place in the line of starts. It is given up when the other end goes, when
// the admission is released, or when the agent stops.
func (s *seam) wait(ctx context.Context, b *session) bool {
	s.send(boot.Reply{Event: boot.EvInLine, ID: b.ref.ID, Epoch: b.ref.Epoch})
	select {
	case <-b.granted:
		return true
	case <-b.stopped:
		s.refuse(api.Refuse(api.TicketRejected, "%s", ticket.Released))
	case <-ctx.Done():
	case _, open := <-s.lines:
		if open {
			s.refuse(api.Refuse(api.InvalidRequest, "nothing may be sent before the start is granted"))
		}
	}
	return false
}

// redeem serves a booter: until Track everything lives by this connection.
func (s *seam) redeem(ctx context.Context, first boot.Request) {
	b := s.begin(ctx, first)
	if b == nil {
		return
	}
	s.send(boot.Reply{Event: boot.EvStart, ID: b.ref.ID, Epoch: b.ref.Epoch, MemoryMB: b.claims.Memory.FloorMiB(), Waiver: b.waiver})
	tracked, reason := s.follow(ctx, b)
	if tracked || ctx.Err() != nil {
		s.agent.booter.forget(b)
		return
	}
	s.agent.booter.abandon(b, reason)
}

// follow takes the booter's words until it has tracked and gone, or said Done.
func (s *seam) follow(ctx context.Context, b *session) (tracked bool, reason string) {
	stopped := b.stopped
	for {
		select {
		case <-stopped:
			s.send(boot.Reply{Event: boot.EvStop})
			stopped = nil
		case q, open := <-s.lines:
			switch {
			case !open:
				return tracked, "the booter's connection closed before it tracked the boot"
			case q.Op == boot.OpTrack:
				tracked = s.track(ctx, b, q) || tracked
			case q.Op == boot.OpDone:
				if err := s.agent.booter.over(ctx, b, cmp.Or(q.Reason, "done, as its booter said")); err != nil {
					s.refuse(err)
					continue
				}
				s.send(boot.Reply{Event: boot.EvDone})
				return true, ""
			default:
				s.refuse(api.Refuse(api.InvalidRequest, "op %q has no place here: use track or done", q.Op))
			}
		}
	}
}

// track watches a process that somebody else started.
func (s *seam) track(ctx context.Context, b *session, q boot.Request) bool {
	// Read before the owner is, and compared after that: so it was one process all along.
	start, err := s.agent.cfg.Machine.StartTime(q.Pid)
	if err != nil {
		s.refuse(api.Refuse(api.InvalidRequest, "pid %d: no such process", q.Pid))
		return false
	}
	if err := s.trackable(b.ref.ID, q, start); err != nil {
		s.refuse(err)
		return false
	}
	if !s.agent.booter.starts(b) {
		s.refuse(api.Refuse(api.InvalidRequest, "this boot was tracked already; where it has ended and may start again, redeem again first"))
		return false
	}
	p, err := s.agent.cfg.Driver.Adopt(b.ref.ID, q.Pid, start, "")
	if err != nil {
		s.refuse(api.Refuse(api.InvalidRequest, "%s", err))
		return false
	}
	if _, err := s.agent.booter.track(ctx, b, p, q.Cgroup); err != nil {
		p.Detach()
		s.refuse(err)
		return false
	}
	s.send(boot.Reply{Event: boot.EvTracked, ID: b.ref.ID, Epoch: b.ref.Epoch, Pid: q.Pid})
	return true
}

// trackable refuses a process that is not the other end's to give, or is given already (the
// end of one sandbox would be that of both), and a cgroup that cannot be measured.
func (s *seam) trackable(id string, q boot.Request, start uint64) error {
	if q.Pid == os.Getpid() {
		return api.Refuse(api.InvalidRequest, "pid %d is the agent itself", q.Pid)
	}
	if other, taken := s.agent.booter.tracks(q.Pid, start); taken {
		return api.Refuse(api.InvalidRequest, "pid %d is tracked already, as sandbox %s", q.Pid, other)
	}
	info, err := os.Stat(fmt.Sprintf("/proc/%d", q.Pid))
	if err != nil {
		return api.Refuse(api.InvalidRequest, "pid %d: no such process", q.Pid)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if s.peer.Uid != 0 && owner.Uid != s.peer.Uid {
		return api.Refuse(api.Forbidden, "pid %d belongs to uid %d, and the booter is uid %d", q.Pid, owner.Uid, s.peer.Uid)
	}
	if q.Cgroup == "" {
		return nil
	}
	if q.Cgroup == s.agent.cfg.Driver.CgroupOf(id) {
		return api.Refuse(api.InvalidRequest, "cgroup %s is what the agent's own driver would make for this sandbox; use another", q.Cgroup)
	}
	if _, err := s.agent.cfg.Machine.ResidentCgroup(q.Cgroup); err != nil {
		return api.Refuse(api.InvalidRequest, "cgroup %s cannot be measured: %s", q.Cgroup, err)
	}
	return nil
}
