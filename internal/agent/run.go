package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// run boots a command with the process driver, as the user at the other end, and sends its
// output until it ends. It goes through the same three steps as any other booter.
func (s *seam) run(ctx context.Context, first boot.Request) {
	if first.Command == nil {
		s.refuse(api.Refuse(api.InvalidRequest, "run needs a command"))
		return
	}
	b := s.begin(ctx, first)
	if b == nil {
		return
	}
	defer s.agent.booter.forget(b)
	t, err := s.boot(ctx, b, *first.Command)
	if err != nil {
		s.agent.booter.abandon(b, "not booted: "+err.Error())
		s.refuse(err)
		return
	}
	s.attend(ctx, b, t, first.Command.Detach)
}

// boot prepares a held process, has it tracked, and only then lets it go: an agent that
// dies in between leaves nothing that runs unknown.
func (s *seam) boot(ctx context.Context, b *session, c boot.Command) (*tracked, error) {
	spec, err := s.spec(ctx, b, c)
	if err != nil {
		return nil, api.Refuse(api.Unavailable, "%s", err)
	}
	p, err := s.agent.cfg.Driver.Prepare(ctx, spec)
	if err != nil {
		return nil, notBooted(err)
	}
	t, err := s.agent.booter.track(ctx, b, p, p.Cgroup())
	if err != nil {
		p.Abort()
		return nil, err
	}
	return t, nil
}

// notBooted tells what a machine is short of, and may have again, from a command that will
// never run.
func notBooted(err error) *api.Refusal {
	for _, short := range []error{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.ENOMEM, context.Canceled} {
		if errors.Is(err, short) {
			return api.Refuse(api.Unavailable, "%s", err)
		}
	}
	return api.Refuse(api.InvalidRequest, "%s", err)
}

// The kernel takes stateless sandboxes before anything else on the machine, were it ever
// to come to that, and stateful ones no sooner than what else runs there.
const (
	oomStateless = 500
	oomStateful  = 0
)

func (s *seam) spec(ctx context.Context, b *session, c boot.Command) (driver.Spec, error) {
	var stateful bool
	err := s.agent.Look(ctx, func(h *host.Host) {
		sandbox, _ := h.Sandbox(b.ref.ID)
		stateful = sandbox.Ask.Stateful
	})
	if err != nil {
		return driver.Spec{}, err
	}
	score := oomStateless
	if stateful {
		score = oomStateful
	}
	return driver.Spec{
		ID: b.ref.ID, Argv: c.Argv, Env: c.Env, Dir: c.Dir, Memory: b.claims.Memory,
		UID: s.peer.Uid, GID: s.peer.Gid, Groups: s.groups, OOMScoreAdj: score,
	}, nil
}

// attend lets the process go and stays with it. When the other end leaves, a sandbox that
// was not detached is stopped. What is said of an end is said when everything is free.
func (s *seam) attend(ctx context.Context, b *session, t *tracked, detach bool) {
	p := t.process
	logs := s.openLogs(b.ref.ID)
	defer logs.close()
	if err := p.Go(); err != nil {
		<-t.told
		s.refuse(whyNotRun(b, err))
		return
	}
	s.send(boot.Reply{Event: boot.EvTracked, ID: b.ref.ID, Epoch: b.ref.Epoch, Pid: p.Pid(), Waiver: b.waiver})
	if detach {
		return
	}
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	next, atOnce := tick.C, make(chan time.Time)
	close(atOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.told:
			s.exited(b, t, logs)
			return
		case q, open := <-s.lines:
			if !open {
				s.agent.booter.end(t)
				return
			}
			s.signal(p, q)
		case <-next:
			next = tick.C
			if logs.send(s) {
				next = atOnce
			}
		}
	}
}

func whyNotRun(b *session, err error) error {
	select {
	case <-b.stopped:
		return api.Refuse(api.TicketRejected, "%s", ticket.Released)
	default:
		return notBooted(err)
	}
}

// exited sends the rest of the output, and how it ended. A sandbox that goes on without
// this agent has not.
func (s *seam) exited(b *session, t *tracked, logs *tails) {
	e := t.process.Wait()
	if errors.Is(e.Err, driver.ErrDetached) {
		return
	}
	for logs.send(s) {
	}
	s.send(boot.Reply{Event: boot.EvExited, ID: b.ref.ID, Epoch: b.ref.Epoch, Exit: exitOf(e, t.evicted)})
}

// tailEvery is how late a line of output may come.
const tailEvery = 20 * time.Millisecond

func (s *seam) signal(p *driver.Process, q boot.Request) {
	if q.Op != boot.OpSignal {
		s.refuse(api.Refuse(api.InvalidRequest, "op %q has no place here: use signal", q.Op))
		return
	}
	p.Signal(syscall.Signal(q.Signal))
}

func exitOf(e driver.Exit, evicted string) *boot.Exit {
	out := &boot.Exit{Status: e.Code, OOM: e.OOM && e.OwnLimit, Unknown: e.Unknown, Evicted: evicted}
	if e.Signal != 0 {
		out.Signal = signalName(e.Signal)
	}
	return out
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return s.String()
}

// tails are the two logs of a sandbox, read on from where they stood before it ran.
type tails struct {
	stdout, stderr *os.File
	buf            [32 << 10]byte
}

func (s *seam) openLogs(id string) *tails {
	stdout, stderr := s.agent.cfg.Driver.Logs(id)
	return &tails{stdout: openAtEnd(stdout), stderr: openAtEnd(stderr)}
}

func openAtEnd(path string) *os.File {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	f.Seek(0, io.SeekEnd)
	return f
}

// send sends what was written meanwhile, and says whether there may be more. It takes no
// more than a little at a time: whoever writes faster than the other end reads would keep
// signals and hang-ups from being heard.
func (t *tails) send(s *seam) (more bool) {
	out := t.drain(s, t.stdout, "stdout")
	return t.drain(s, t.stderr, "stderr") || out
}

const readsATime = 8

func (t *tails) drain(s *seam, f *os.File, stream string) (more bool) {
	for range readsATime {
		if f == nil {
			return false
		}
		data := t.read(f)
		if len(data) == 0 {
			return false
		}
		if s.send(boot.Reply{Event: boot.EvOutput, Stream: stream, Data: data}) != nil {
			return false
		}
	}
	return true
}

// read reads on, or says how much is missing. Whether something was trimmed is looked at when
// it was read: what is trimmed between a look and a read would be read as zeros.
func (t *tails) read(f *os.File) []byte {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil
	}
	n, err := f.Read(t.buf[:])
	if missing := skipTrimmed(f, at); missing > 0 {
		return fmt.Appendf(t.buf[:0], "\n[plimsoll: %d bytes of output are missing here, which was written faster than read]\n", missing)
	}
	if _, back := f.Seek(at+int64(n), io.SeekStart); err != nil || back != nil {
		return nil
	}
	return t.buf[:n]
}

// skipTrimmed moves past what trim has taken away from there, and says how much that was.
func skipTrimmed(f *os.File, at int64) int64 {
	data, err := f.Seek(at, unix.SEEK_DATA)
	if err != nil { // there is no more data, or a file system that cannot tell
		return 0
	}
	return data - at
}

func (t *tails) close() {
	for _, f := range []*os.File{t.stdout, t.stderr} {
		if f != nil {
			f.Close()
		}
	}
}
