package cli

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// fakeAgent boots commands as plain children. The ticket tells it what to do: "run", or
// "refuse-CODE", or "drop", which closes the connection.
type fakeAgent struct {
	socket string
	l      net.Listener
	conns  sync.WaitGroup
}

func newFakeAgent(t testing.TB) (*fakeAgent, error) {
	dir, err := os.MkdirTemp("", "agent") // a short path: sockets have at most 107 bytes
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	a := &fakeAgent{socket: filepath.Join(dir, "s")}
	if a.l, err = net.Listen("unix", a.socket); err != nil {
		return nil, err
	}
	go a.accept()
	return a, nil
}

func (a *fakeAgent) close() {
	a.l.Close()
	a.conns.Wait()
}

func (a *fakeAgent) accept() {
	for {
		c, err := a.l.Accept()
		if err != nil {
			return
		}
		a.conns.Go(func() {
			defer c.Close()
			serveBoot(c)
		})
	}
}

func serveBoot(c net.Conn) {
	lines := bufio.NewReader(c)
	var q boot.Request
	if err := next(lines, &q); err != nil || q.Command == nil {
		return
	}
	out := &sender{enc: json.NewEncoder(c)}
	if code, refused := strings.CutPrefix(q.Ticket, "refuse-"); refused {
		out.send(boot.Reply{Event: boot.EvRefused, Code: api.Code(code), Detail: "said the agent"})
		return
	}
	if q.Ticket == "drop" {
		return
	}
	cmd := exec.Command(q.Command.Argv[0], q.Command.Argv[1:]...)
	cmd.Env, cmd.Dir = q.Command.Env, q.Command.Dir
	cmd.Stdout, cmd.Stderr = stream{out, "stdout"}, stream{out, "stderr"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		out.send(boot.Reply{Event: boot.EvRefused, Code: api.InvalidRequest, Detail: err.Error()})
		return
	}
	out.send(boot.Reply{Event: boot.EvTracked, Pid: cmd.Process.Pid})
	go func() {
		for next(lines, &q) == nil {
			cmd.Process.Signal(syscall.Signal(q.Signal))
		}
	}()
	cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	exit := boot.Exit{Status: status.ExitStatus()}
	if status.Signaled() {
		exit = boot.Exit{Status: 128 + int(status.Signal()), Signal: status.Signal().String()}
	}
	out.send(boot.Reply{Event: boot.EvExited, Exit: &exit})
}

func next(lines *bufio.Reader, q *boot.Request) error {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, q)
}

type sender struct {
	mu  sync.Mutex // guards enc
	enc *json.Encoder
}

func (s *sender) send(r boot.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enc.Encode(r)
}

// stream sends what a command writes.
type stream struct {
	*sender
	name string
}

func (s stream) Write(data []byte) (int, error) {
	s.send(boot.Reply{Event: boot.EvOutput, Stream: s.name, Data: data})
	return len(data), nil
}
