package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/internal/driver"
)

// run boots a command with the process driver, as the user at the other end, and sends its
// output until it ends. It goes through the same three steps as any other booter.
func (s *seam) run(ctx context.Context, first boot.Request) {
	if first.Command == nil {
		s.refuse(api.Refuse(api.InvalidRequest, "run needs a command"))
		return
	}
	b := s.begin(ctx, first.Ticket)
	if b == nil {
		return
	}
	defer s.agent.booter.forget(b)
	p, err := s.boot(ctx, b, *first.Command)
	if err != nil {
		s.agent.booter.abandon(b, "not booted: "+err.Error())
		s.refuse(err)
		return
	}
	s.attend(ctx, b, p, first.Command.Detach)
}

// boot prepares a held process, has it tracked, and only then lets it go: an agent that
// dies in between leaves nothing that runs unknown.
func (s *seam) boot(ctx context.Context, b *session, c boot.Command) (*driver.Process, error) {
	p, err := s.agent.cfg.Driver.Prepare(ctx, s.spec(b, c))
	if err != nil {
		return nil, api.Refuse(api.InvalidRequest, "%s", err)
	}
	if err := s.agent.booter.track(ctx, b.ref, p, p.Cgroup()); err != nil {
		p.Abort()
		return nil, err
	}
	return p, nil
}

// The kernel takes stateless sandboxes before anything else on the machine, were it ever
// to come to that.
const oomScoreAdj = 500

func (s *seam) spec(b *session, c boot.Command) driver.Spec {
	return driver.Spec{
		ID: b.ref.ID, Argv: c.Argv, Env: c.Env, Dir: c.Dir, Memory: b.claims.Memory,
		UID: s.peer.Uid, GID: s.peer.Gid, Groups: groupsOf(s.peer.Uid), OOMScoreAdj: oomScoreAdj,
	}
}

func groupsOf(uid uint32) []uint32 {
	u, err := user.LookupId(strconv.Itoa(int(uid)))
	if err != nil {
		return nil
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil
	}
	var out []uint32
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			out = append(out, uint32(n))
		}
	}
	return out
}

// attend lets the process go and stays with it. When the other end leaves, a sandbox that
// was not detached is stopped.
func (s *seam) attend(ctx context.Context, b *session, p *driver.Process, detach bool) {
	logs := s.openLogs(b.ref.ID)
	defer logs.close()
	if err := p.Go(); err != nil {
		s.refuse(api.Refuse(api.InvalidRequest, "%s", err))
		return
	}
	s.send(boot.Reply{Event: boot.EvTracked, ID: b.ref.ID, Epoch: b.ref.Epoch, Pid: p.Pid()})
	if detach {
		return
	}
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.Done():
			logs.send(s)
			s.send(boot.Reply{Event: boot.EvExited, ID: b.ref.ID, Epoch: b.ref.Epoch, Exit: exitOf(p.Wait())})
			return
		case q, open := <-s.lines:
			if !open {
				s.agent.booter.end(b.ref, p)
				return
			}
			s.signal(p, q)
		case <-tick.C:
			logs.send(s)
		}
	}
}

// tailEvery is how late a line of output may come.
const tailEvery = 20 * time.Millisecond

func (s *seam) signal(p *driver.Process, q boot.Request) {
	if q.Op != boot.OpSignal {
		s.refuse(api.Refuse(api.InvalidRequest, "op %q has no place here: use signal", q.Op))
		return
	}
	if err := unix.Kill(p.Pid(), unix.Signal(q.Signal)); err != nil && !errors.Is(err, unix.ESRCH) {
		s.agent.cfg.Log.Error("signal not passed on", "pid", p.Pid(), "signal", q.Signal, "err", err)
	}
}

func exitOf(e driver.Exit) *boot.Exit {
	out := &boot.Exit{Status: e.Code, OOM: e.OOM, Unknown: e.Unknown}
	if e.Signal != 0 {
		out.Status, out.Signal = 128+int(e.Signal), signalName(e.Signal)
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

// send sends all that was written meanwhile.
func (t *tails) send(s *seam) {
	t.drain(s, t.stdout, "stdout")
	t.drain(s, t.stderr, "stderr")
}

func (t *tails) drain(s *seam, f *os.File, stream string) {
	for f != nil {
		n, err := f.Read(t.buf[:])
		if n > 0 && s.send(boot.Reply{Event: boot.EvOutput, Stream: stream, Data: t.buf[:n]}) != nil {
			return
		}
		if err != nil || n == 0 {
			return
		}
	}
}

func (t *tails) close() {
	for _, f := range []*os.File{t.stdout, t.stderr} {
		if f != nil {
			f.Close()
		}
	}
}
