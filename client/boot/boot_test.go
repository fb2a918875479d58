package boot_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The package against the real agent is tested there, with real processes. Here the agent
// is one that says what a real one says seldom, late or never.

// conversation is one connection, seen from the agent.
type conversation struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// agent answers one connection after the other with a script, and waits for them at the end.
func agent(t *testing.T, script func(c *conversation)) boot.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "a.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer nc.Close()
				script(&conversation{nc, t, bufio.NewReader(nc)})
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return boot.Client{Socket: socket}
}

// hear returns the next request; its Op is "" when the other end has hung up.
func (c *conversation) hear() (q boot.Request) {
	line, err := c.in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &q)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.t.Log(err)
	}
	return q
}

func (c *conversation) say(replies ...boot.Reply) {
	for _, r := range replies {
		line, err := json.Marshal(r)
		if err != nil {
			c.t.Error(err)
		}
		c.Write(append(line, '\n'))
	}
}

func (c *conversation) hungUp() { io.Copy(io.Discard, c.in) }

func ExampleClient() {
	ctx, agent := context.Background(), boot.Client{Socket: "/var/lib/plimsoll/agent.sock"}
	start, err := agent.Redeem(ctx, "plm1.…") // the ticket of an admission
	if errors.Is(err, api.ReservationLapsed) {
		return // not now: attempt the admission again, which places it anew
	}
	if err != nil {
		return
	}
	defer start.Close() // before Track it gives everything back
	pid := 4711         // of the sandbox that is booted here, with start.MemoryMB as its limit
	if err := start.Track(ctx, pid); err != nil {
		return // and end the sandbox: it is not charged
	}
	<-start.Stopped() // its admission was released; the agent ends it too
}

func TestRedeemWaitsInLine(t *testing.T) {
	c := agent(t, func(c *conversation) {
		if q := c.hear(); q.Op != boot.OpRedeem || q.Ticket != "plm1.x" {
			t.Errorf("asked %+v", q)
		}
		c.say(boot.Reply{Event: boot.EvInLine}, boot.Reply{Event: boot.EvStart, ID: "a", Epoch: 7, MemoryMB: 512})
		c.hungUp()
	})
	s, err := c.Redeem(t.Context(), "plm1.x")
	if err != nil || s.ID != "a" || s.Epoch != 7 || s.MemoryMB != 512 {
		t.Fatalf("%+v %v", s, err)
	}
	s.Close()
}

func TestRedeemEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		script func(c *conversation)
		is     error
		says   string
	}{
		"refused": {func(c *conversation) { c.say(boot.Reply{Event: boot.EvRefused, Code: api.HostDraining, Detail: "why"}) }, api.HostDraining, "why"},
		"refused in line": {func(c *conversation) {
			c.say(boot.Reply{Event: boot.EvInLine}, boot.Reply{Event: boot.EvRefused, Code: api.TicketRejected})
		}, api.TicketRejected, ""},
		"the agent is gone": {func(*conversation) {}, boot.ErrConnectionLost, ""},
		"a strange event":   {func(c *conversation) { c.say(boot.Reply{Event: "dance"}) }, nil, `"dance"`},
		"no JSON":           {func(c *conversation) { fmt.Fprintln(c, "dance") }, nil, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			c := agent(t, func(c *conversation) { c.hear(); tt.script(c) })
			_, err := c.Redeem(t.Context(), "x")
			if err == nil || !strings.Contains(err.Error(), tt.says) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := (boot.Client{Socket: "/no/such.sock"}).Redeem(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "is plimsoll up running") {
		t.Errorf("nobody there: %v", err)
	}
}

// A caller that gives up hangs up, so that the agent gives everything back.
func TestRedeemIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan struct{})
	c := agent(t, func(c *conversation) {
		defer close(over)
		c.hear()
		c.say(boot.Reply{Event: boot.EvInLine})
		cancel(errors.New("bored"))
		c.hungUp()
	})
	if _, err := c.Redeem(ctx, "x"); err == nil || err.Error() != "bored" {
		t.Error(err)
	}
	<-over
}

// start redeems at an agent that goes on with a script.
func start(t *testing.T, script func(c *conversation)) *boot.Start {
	t.Helper()
	c := agent(t, func(c *conversation) {
		c.hear()
		c.say(boot.Reply{Event: boot.EvStart})
		script(c)
		c.hungUp()
	})
	s, err := c.Redeem(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// An order to stop may come at any time, also between a question and its answer, and twice.
func TestStopAtAnyTime(t *testing.T) {
	s := start(t, func(c *conversation) {
		c.hear()
		c.say(boot.Reply{Event: boot.EvStop}, boot.Reply{Event: boot.EvTracked}, boot.Reply{Event: boot.EvStop})
		c.hear()
		c.say(boot.Reply{Event: boot.EvDone})
	})
	if err := s.TrackCgroup(t.Context(), 7, "/c"); err != nil {
		t.Error(err)
	}
	<-s.Stopped()
	if err := s.Done(t.Context(), "over"); err != nil {
		t.Error(err)
	}
}

func TestTrackIsRefused(t *testing.T) {
	s := start(t, func(c *conversation) {
		for c.hear().Op == boot.OpTrack {
			c.say(boot.Reply{Event: boot.EvRefused, Code: api.Forbidden, Detail: "not yours"})
		}
		c.say(boot.Reply{Event: "dance"})
	})
	for range 3 { // a refusal ends nothing
		if err := s.Track(t.Context(), 7); !errors.Is(err, api.Forbidden) {
			t.Error(err)
		}
	}
	if err := s.Done(t.Context(), ""); err == nil || !strings.Contains(err.Error(), `"dance" to done`) {
		t.Error(err)
	}
}

// A question that was given up leaves no answer for the next one to take for its own.
func TestAGivenUpQuestionEndsTheConnection(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := start(t, func(c *conversation) {
		c.hear()
		cancel()
		c.hungUp()
		c.say(boot.Reply{Event: boot.EvTracked})
	})
	if err := s.Track(ctx, 7); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Done(t.Context(), ""); !errors.Is(err, boot.ErrConnectionLost) {
		t.Errorf("after that: %v", err)
	}
	if err := s.Track(ctx, 7); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Questions of several goroutines are put one after the other.
func TestQuestionsAtOnce(t *testing.T) {
	s := start(t, func(c *conversation) {
		for {
			switch c.hear().Op {
			case boot.OpTrack:
				c.say(boot.Reply{Event: boot.EvTracked})
			case boot.OpDone:
				c.say(boot.Reply{Event: boot.EvDone})
			default:
				return
			}
		}
	})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			var err error
			if i%2 == 0 {
				err = s.Track(t.Context(), 7)
			} else {
				err = s.Done(t.Context(), "")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.Close()
	if err := s.Done(t.Context(), ""); !errors.Is(err, boot.ErrConnectionLost) {
		t.Error(err)
	}
}

// Answers that nobody asked for hold nobody up.
func TestAnswersNobodyAskedFor(t *testing.T) {
	s := start(t, func(c *conversation) {
		for range 100 {
			c.say(boot.Reply{Event: boot.EvTracked})
		}
		c.say(boot.Reply{Event: boot.EvStop})
	})
	<-s.Stopped()
}

func TestRun(t *testing.T) {
	exit := boot.Exit{Status: 137, Signal: "SIGKILL", OOM: true}
	cmd := boot.Command{Argv: []string{"a", "\xff"}, Env: []string{"B=\xfe"}, Dir: "/d\xfd"}
	c := agent(t, func(c *conversation) {
		if q := c.hear(); q.Op != boot.OpRun || q.Ticket != "x" || !reflect.DeepEqual(*q.Command, cmd) {
			t.Errorf("asked %+v", q)
		}
		c.say(boot.Reply{Event: boot.EvInLine}, boot.Reply{Event: boot.EvTracked})
		if q := c.hear(); q.Op != boot.OpSignal || q.Signal != 15 {
			t.Errorf("asked %+v", q)
		}
		c.say(
			boot.Reply{Event: boot.EvOutput, Stream: "stdout", Data: []byte("o\x00")},
			boot.Reply{Event: boot.EvOutput, Stream: "stderr", Data: []byte("e")},
			boot.Reply{Event: "of a later version"},
			boot.Reply{Event: boot.EvExited, Exit: &exit},
		)
	})
	signals := make(chan int, 1)
	signals <- 15
	close(signals)
	var out, errs bytes.Buffer
	got, err := c.Run(t.Context(), "x", cmd, &out, &errs, signals)
	if err != nil || got != exit || out.String() != "o\x00" || errs.String() != "e" {
		t.Errorf("%+v %v, %q and %q", got, err, &out, &errs)
	}
}

func TestRunEnds(t *testing.T) {
	tracked := boot.Reply{Event: boot.EvTracked}
	for name, tt := range map[string]struct {
		script func(c *conversation)
		detach bool
		is     error
		says   string
	}{
		"detached":       {func(c *conversation) { c.say(tracked) }, true, nil, ""},
		"refused":        {func(c *conversation) { c.say(boot.Reply{Event: boot.EvRefused, Code: api.HostPressure}) }, false, api.HostPressure, ""},
		"lost in line":   {func(*conversation) {}, false, boot.ErrConnectionLost, boot.ErrConnectionLost.Error()},
		"lost later":     {func(c *conversation) { c.say(tracked) }, false, boot.ErrConnectionLost, "goes on"},
		"an end without": {func(c *conversation) { c.say(boot.Reply{Event: boot.EvExited}) }, false, nil, "another version"},
		"no JSON":        {func(c *conversation) { fmt.Fprintln(c, "x") }, false, nil, "not JSON"},
		"broken pipe":    {func(c *conversation) { c.say(boot.Reply{Event: boot.EvOutput, Data: []byte("x")}) }, false, io.ErrClosedPipe, "output"},
	} {
		t.Run(name, func(t *testing.T) {
			c := agent(t, func(c *conversation) { c.hear(); tt.script(c) })
			exit, err := c.Run(t.Context(), "x", boot.Command{Argv: []string{"a"}, Detach: tt.detach}, brokenPipe{}, brokenPipe{}, nil)
			if tt.detach {
				if err != nil || !exit.Unknown {
					t.Errorf("%+v %v", exit, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got %v", err)
			}
		})
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// An agent that refuses while the request is on its way is heard all the same.
func TestARefusalBeforeTheRequestWasRead(t *testing.T) {
	c := agent(t, func(c *conversation) {
		c.say(boot.Reply{Event: boot.EvRefused, Code: api.Forbidden, Detail: "who are you?"})
	})
	big := boot.Command{Argv: []string{strings.Repeat("x", boot.MaxLine/2)}}
	for range 5 {
		_, err := c.Run(t.Context(), "x", big, io.Discard, io.Discard, nil)
		if !errors.Is(err, api.Forbidden) {
			t.Fatal(err)
		}
	}
	big.Argv = append(big.Argv, big.Argv[0])
	if _, err := c.Run(t.Context(), "x", big, io.Discard, io.Discard, nil); !errors.Is(err, api.BodyTooLarge) {
		t.Error(err)
	}
}

// FuzzCommand: a command comes over as it was sent, whatever bytes it is made of, and what
// is UTF-8 is plain JSON that any client can write.
func FuzzCommand(f *testing.F) {
	f.Add("a", "B=c", "/d", false)
	f.Add("\xff", "\x00", "é\xc3", true)
	f.Add("", "{", `"`, true)
	f.Fuzz(func(t *testing.T, arg, env, dir string, detach bool) {
		want := boot.Command{Argv: []string{arg, arg}, Env: []string{env}, Dir: dir, Detach: detach}
		line, err := json.Marshal(boot.Request{Op: boot.OpRun, Command: &want})
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsRune(line, '\n') {
			t.Fatalf("%q is more than a line", line)
		}
		var got boot.Request
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(*got.Command, want) {
			t.Errorf("%q came over as %+v, sent %+v", line, got.Command, want)
		}
	})
}

func TestCommandIsPlainJSON(t *testing.T) {
	var q boot.Request
	err := json.Unmarshal([]byte(`{"op":"run","command":{"argv":["sh","-c","x"],"env":["A=1"],"dir":"/","detach":true}}`), &q)
	want := boot.Command{Argv: []string{"sh", "-c", "x"}, Env: []string{"A=1"}, Dir: "/", Detach: true}
	if err != nil || !reflect.DeepEqual(*q.Command, want) {
		t.Errorf("%+v %v", q.Command, err)
	}
}

// The host gate alone: a node daemon asks the agent of its own machine, and nobody else.
func ExampleClient_Reserve() {
	ctx := context.Background()
	agent := boot.Client{Socket: "/var/lib/plimsoll/agent.sock"}

	// 1. Reserve: is there room for one more here? This host alone says so.
	place, err := agent.Reserve(ctx, boot.Ask{MemoryMB: 4096, CPU: 2, Class: "runner", Key: "job-4711"})
	var no *boot.Denied
	if errors.As(err, &no) {
		// Not a failure: tell your scheduler to try another node, or this one later.
		fmt.Println(no.Code, "needs", no.NeedMB, "MiB of", no.AdmittableMB, "again in", no.RetryAfter)
		return
	}
	if err != nil {
		return // the agent is not there: this machine boots nothing
	}

	// 2. Redeem: the reservation becomes a charge, and a boot may begin. A slow image pull goes
	// before this: Renew keeps the reservation meanwhile, Release gives it back.
	start, err := agent.Redeem(ctx, place.Ticket)
	if err != nil {
		return
	}
	defer start.Close() // before Track it gives everything back

	// 3. Track: name the process that you booted, with start.MemoryMB as its limit.
	pid := 4711
	if err := start.Track(ctx, pid); err != nil {
		return // and end the sandbox: it is not charged
	}

	// 4. Done, if you like to wait for it; the agent sees the end of the process by itself.
	<-start.Stopped()
}

func TestReserve(t *testing.T) {
	c := agent(t, func(c *conversation) {
		switch q := c.hear(); {
		case q.Op == boot.OpReserve && q.Ask.MemoryMB == 4096 && q.Ask.Dims["gpus"] == 1:
			c.say(boot.Reply{Event: boot.EvReserved, ID: "local:x", Epoch: 1, Ticket: "plm1.x", Host: "h", MemoryMB: 4096, NeedMB: 1024, ExpiresInMS: 60000})
		case q.Op == boot.OpRenew && q.Ticket == "plm1.x":
			c.say(boot.Reply{Event: boot.EvReserved, ID: "local:x", Ticket: "plm1.y"})
		case q.Op == boot.OpRelease && q.Ticket == "plm1.y":
			c.say(boot.Reply{Event: boot.EvReleased})
		default:
			t.Errorf("asked %+v", q)
		}
	})
	got, err := c.Reserve(t.Context(), boot.Ask{MemoryMB: 4096, Dims: map[string]int64{"gpus": 1}})
	want := boot.Reservation{ID: "local:x", Epoch: 1, Ticket: "plm1.x", Host: "h", MemoryMB: 4096, NeedMB: 1024, ExpiresIn: time.Minute}
	if err != nil || got != want {
		t.Errorf("reserved %+v, %v", got, err)
	}
	if got, err = c.Renew(t.Context(), got.Ticket); err != nil || got.Ticket != "plm1.y" {
		t.Errorf("renewed %+v, %v", got, err)
	}
	if err := c.Release(t.Context(), got.Ticket); err != nil {
		t.Error(err)
	}
}

func TestReserveEnds(t *testing.T) {
	denied := boot.Reply{Event: boot.EvRefused, Code: api.NoCapacity, Detail: "why", NeedMB: 1024, AdmittableMB: 7, Intake: "open", RetryAfterMS: 1500}
	for name, tt := range map[string]struct {
		reply boot.Reply
		is    error
	}{
		"denied":          {denied, api.NoCapacity},
		"a strange event": {boot.Reply{Event: "dance"}, nil},
		"gone":            {boot.Reply{}, boot.ErrConnectionLost},
	} {
		c := agent(t, func(c *conversation) {
			c.hear()
			if tt.reply.Event != "" {
				c.say(tt.reply)
			}
		})
		_, err := c.Reserve(t.Context(), boot.Ask{MemoryMB: 1})
		var no *boot.Denied
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v", name, err)
		}
		if errors.As(err, &no) && (no.NeedMB != 1024 || no.AdmittableMB != 7 || no.Intake != "open" || no.RetryAfter != 1500*time.Millisecond) {
			t.Errorf("%s: %+v", name, no)
		}
		if r, ok := api.AsRefusal(err); ok != (name == "denied") || ok && r.Detail != "why" {
			t.Errorf("%s: refusal %v", name, r)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	c := agent(t, func(c *conversation) { c.hear(); cancel(errors.New("bored")); c.hungUp() })
	if err := c.Release(ctx, "x"); err == nil || err.Error() != "bored" {
		t.Errorf("given up: %v", err)
	}
}
