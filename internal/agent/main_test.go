package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// The test binary is also the driver's helper, and a booter with rights of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case driver.ExecCommand:
			os.Exit(driver.ExecMain(os.Args[2:]))
		case "test-booter":
			os.Exit(booterMain(os.Args[2]))
		case "test-killed":
			os.Exit(killedMain(os.Args[2]))
		}
	}
	goleak.VerifyTestMain(m)
}

const hostID = "h1"

// rig is an agent on this machine, with what a replica and a booter need to know of it.
type rig struct {
	*agent.Agent
	t      testing.TB
	cfg    agent.Config
	parent string // cgroup of its sandboxes
	tmp    string // where sandboxes of any user may write
	ring   ticket.Keyring
	boot   boot.Client
	log    *logBuffer
	halt   func()
	lives  atomic.Int64 // registrations so far
}

// logBuffer is what the agent said.
type logBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// startRig starts an agent with a budget of 4 GiB. The test ends with nothing left of it.
func startRig(t testing.TB, change ...func(*agent.Config)) *rig {
	t.Helper()
	r := newRig(t, change...)
	r.start()
	return r
}

func newRig(t testing.TB, change ...func(*agent.Config)) *rig {
	t.Helper()
	tmp, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	os.Chmod(tmp, 0o777)
	machine, err := hostmem.Discover("/")
	if err != nil {
		t.Skip(err)
	}
	r := &rig{
		t: t, tmp: tmp, ring: newRing(t, "k1"), log: new(logBuffer),
		parent: fmt.Sprintf("/plimsoll-test-%d/%s", os.Getpid(), filepath.Base(tmp)),
	}
	r.boot.Socket = filepath.Join(tmp, "agent.sock")
	keys, err := r.ring.Audience(hostID)
	if err != nil {
		t.Fatal(err)
	}
	h := host.DefaultConfig(hostID, 2)
	h.MaxStarts = 32
	r.cfg = agent.Config{
		Host: h, Budget: 4 * gate.GiB, Dir: tmp, Socket: r.boot.Socket,
		SampleLimits: 10 * time.Millisecond, SampleSandboxes: 50 * time.Millisecond,
		Machine: machine, Keys: keys, Show: control.ShowHost, ShowLessons: control.ShowLessons,
		Register: func(context.Context, string) (int64, error) { return r.lives.Add(1), nil },
		Log:      slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&r.cfg)
	}
	t.Cleanup(func() { r.removeParent(machine) })
	return r
}

func newRing(t testing.TB, id string) ticket.Keyring {
	t.Helper()
	return newRingOf(t, id, id)
}

func newRingOf(t testing.TB, id, secret string) ticket.Keyring {
	t.Helper()
	root, err := ticket.NewRoot(id, ticket.Signing, []byte(strings.Repeat(secret, 32)[:32]))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := ticket.NewKeyring(root)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// start begins a life of the agent and waits until it knows what it may promise.
func (r *rig) start() {
	r.t.Helper()
	a, err := agent.New(r.t.Context(), r.withDriver())
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := a.Listen()
	if err != nil {
		r.t.Fatal(err)
	}
	r.Agent = a
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { r.expectNil(a.Run(ctx)) })
	parts.Go(func() { r.expectNil(a.Serve(ctx, l)) })
	r.halt = sync.OnceFunc(func() { cancel(); parts.Wait(); r.cfg.Driver = nil })
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Log(r.log)
		}
		r.end()
	})
	r.eventually("a first sample", func() bool { return len(r.view().Limits) > 0 })
}

// withDriver is the configuration with a driver, which knows the sandboxes of one life.
func (r *rig) withDriver() agent.Config {
	r.t.Helper()
	if r.cfg.Driver != nil {
		return r.cfg
	}
	var err error
	r.cfg.Driver, err = driver.New(driver.Config{
		Machine: r.cfg.Machine, Parent: r.parent, Dir: filepath.Join(r.tmp, "logs"), Grace: 300 * time.Millisecond,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.cfg
}

// discover makes another root the machine.
func (r *rig) discover(root string) {
	r.t.Helper()
	m, err := hostmem.Discover(root)
	if err != nil {
		r.t.Fatal(err)
	}
	r.cfg.Machine = m
}

func (r *rig) expectNil(err error) {
	if err != nil {
		r.t.Error(err)
	}
}

// restart ends this life of the agent, lets the test do what it likes meanwhile, and begins
// the next.
func (r *rig) restart(meanwhile ...func()) {
	r.t.Helper()
	r.halt()
	for _, f := range meanwhile {
		f()
	}
	r.start()
}

// end stops every sandbox and the agent.
func (r *rig) end() {
	for _, s := range r.view().Sandboxes {
		r.Do(context.Background(), host.Release{ID: s.ID, Gen: s.Epoch})
	}
	r.eventually("every sandbox to end", func() bool { return len(r.view().Sandboxes) == 0 })
	r.halt()
}

func (r *rig) removeParent(m *hostmem.Machine) {
	for _, h := range []hostmem.Hierarchy{m.Memory(), m.Unified()} {
		if !h.Mounted() {
			continue
		}
		if err := unix.Rmdir(h.Dir(r.parent)); err != nil && err != unix.ENOENT {
			r.t.Errorf("%s: a sandbox's cgroup was left behind: %v", h.Dir(r.parent), err)
		}
		unix.Rmdir(h.Dir(filepath.Dir(r.parent)))
	}
}

// view looks at the host, whose invariants hold whenever anybody looks.
func (r *rig) view() host.View {
	var v host.View
	err := r.Look(context.Background(), func(h *host.Host) {
		if err := h.CheckInvariants(); err != nil {
			r.t.Error(err)
		}
		v = h.View()
	})
	if errors.Is(err, agent.ErrStopped) {
		return host.View{}
	}
	if err != nil {
		r.t.Error(err)
	}
	return v
}

func (r *rig) sandbox(id string) (host.Sandbox, bool) {
	for _, s := range r.view().Sandboxes {
		if s.ID == id {
			return s, true
		}
	}
	return host.Sandbox{}, false
}

// eventually waits for a condition that no one can be asked to signal.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	eventually(r.t, what, ok)
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// idle waits until nothing is reserved, charged or starting: what a host without work is.
func (r *rig) idle() {
	r.t.Helper()
	r.eventually("an idle host", func() bool {
		v := r.view()
		return v.Reservations == 0 && len(v.Sandboxes) == 0 && v.Starting == 0 && v.InLine == 0 &&
			v.Account.Reserved == 0 && v.Account.Unresident == 0
	})
}

func ask() gate.Ask {
	return gate.Ask{Class: "small", Template: "small", Memory: 128 * gate.MiB, CPUMilli: 1000, Rule: gate.ReserveRule{Permille: 250, Floor: 32 * gate.MiB}}
}

// reserve does what a replica does of a passage: it has memory set aside, and mints.
func (r *rig) reserve(id string, epoch int64) string {
	r.t.Helper()
	return r.reserveFor(id, epoch, time.Minute, ask())
}

func (r *rig) reserveFor(id string, epoch int64, within time.Duration, a gate.Ask) string {
	r.t.Helper()
	answer, err := r.tryReserve(id, epoch, within, a)
	if err != nil || answer.Denial != "" {
		r.t.Fatalf("reserve %s: %v %v", id, answer.Denial, err)
	}
	return r.mint(id, epoch, a.Memory)
}

func (r *rig) tryReserve(id string, epoch int64, within time.Duration, a gate.Ask) (host.Answer, error) {
	v, err := r.Verdict(r.t.Context())
	if err != nil {
		return host.Answer{}, err
	}
	return r.Do(r.t.Context(), host.Reserve{ID: id, Gen: epoch, Ask: a, Until: v.At + within, Incarnation: v.Incarnation})
}

func (r *rig) mint(id string, epoch int64, memory gate.Bytes) string {
	r.t.Helper()
	return mintWith(r.t, r.ring, hostID, id, epoch, memory)
}

func mintWith(t testing.TB, ring ticket.Keyring, audience, id string, epoch int64, memory gate.Bytes) string {
	t.Helper()
	keys, err := ring.Audience(audience)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	text, err := keys.Mint(&ticket.Claims{
		Consumer: "c", Key: "k-" + id, Pool: "p", Class: "small", AdmissionID: id, Epoch: epoch, Memory: memory,
		Issued: now, Expires: now.Add(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// redeem redeems a ticket for a booter of this process.
func (r *rig) redeem(text string) *boot.Start {
	r.t.Helper()
	s, err := r.boot.Redeem(r.t.Context(), text)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { s.Close() })
	return s
}

// child is a process that a foreign orchestrator boots by itself.
type child struct {
	*exec.Cmd
	over chan struct{} // closed when it has ended and was reaped
}

func startChild(t *testing.T, name string, args ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(name, args...), over: make(chan struct{})}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(c.over); c.Wait() }()
	t.Cleanup(func() { c.Process.Kill(); <-c.over })
	return c
}

func (c *child) pid() int { return c.Process.Pid }

// run boots a command with the driver and returns what it wrote.
func (r *rig) run(text string, c boot.Command) (stdout, stderr string, exit boot.Exit, err error) {
	var out, errs bytes.Buffer
	exit, err = r.boot.Run(r.t.Context(), text, c, &out, &errs, nil)
	return out.String(), errs.String(), exit, err
}

func shell(script string) boot.Command {
	return boot.Command{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: "/"}
}

// detached boots a command that outlives its connection, and returns its pid.
func (r *rig) detached(id string, epoch int64, script string) int {
	r.t.Helper()
	c := shell(script)
	c.Detach = true
	if _, err := r.boot.Run(r.t.Context(), r.reserve(id, epoch), c, io.Discard, io.Discard, nil); err != nil {
		r.t.Fatal(err)
	}
	s, ok := r.sandbox(id)
	if !ok || s.Phase != host.Running {
		r.t.Fatalf("%s does not run: %+v", id, s)
	}
	return s.Process.Pid
}

// refused fails unless err is a refusal with this code whose detail says so.
func refused(t *testing.T, err error, code api.Code, says string) {
	t.Helper()
	if !errors.Is(err, code) || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want %s with %q", err, code, says)
	}
}

// alive says whether a process has not ended yet, reaped or not.
func alive(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err != unix.ESRCH
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return !(n > 0 && err == nil)
}

// hears collects news until it has seen the end of a placement.
func (r *rig) hears(feed *agent.Feed, ref host.Ref) host.End {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	for {
		n, err := feed.Next(ctx)
		if err != nil {
			r.t.Fatalf("no end of %v was told: %v", ref, err)
		}
		for _, e := range n.Ends {
			if e.ID == ref.ID && e.Epoch == ref.Epoch {
				return e
			}
		}
	}
}

// booterOrder is what a booter in a process of its own is to do.
type booterOrder struct {
	Socket  string
	Ticket  string
	Track   int           // this pid; 0: nothing; -1: itself
	Run     *boot.Command // instead
	Reserve bool          // instead: just that
}

// booterMain prints the error of what it was told to do. With "redeem only" it waits to be
// killed.
func booterMain(text string) int {
	var o booterOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, c := context.Background(), boot.Client{Socket: o.Socket}
	if o.Run != nil {
		exit, err := c.Run(ctx, o.Ticket, *o.Run, os.Stdout, os.Stderr, nil)
		if err != nil {
			fmt.Println(err)
		}
		return exit.Status
	}
	if o.Reserve {
		_, err := c.Reserve(ctx, boot.Ask{MemoryMB: 1})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("reserved")
		return 0
	}
	s, err := c.Redeem(ctx, o.Ticket)
	if err == nil && o.Track == 0 {
		fmt.Println("redeemed")
		select {}
	}
	if err == nil && o.Track < 0 {
		o.Track = os.Getpid()
	}
	if err == nil {
		err = s.Track(ctx, o.Track)
	}
	fmt.Println(err)
	if o.Track == os.Getpid() {
		select {}
	}
	return 0
}

// booter starts a booter as a user.
func booter(t *testing.T, o booterOrder, uid uint32) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", "test-booter", string(text))
	c.Dir = "/"
	if uid != 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{uid, 4242}}}
	}
	return c
}
