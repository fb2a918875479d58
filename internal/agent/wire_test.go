package agent_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// wire is a connection that says what no client of ours would.
type wire struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, r *rig) *wire {
	t.Helper()
	c, err := net.Dial("unix", r.boot.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return &wire{c, bufio.NewReader(c)}
}

func (w *wire) say(t *testing.T, q boot.Request) {
	t.Helper()
	if err := json.NewEncoder(w.Conn).Encode(q); err != nil {
		t.Fatal(err)
	}
}

func (w *wire) hear(t *testing.T) boot.Reply {
	t.Helper()
	line, err := w.in.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the agent said nothing more: %v", err)
	}
	var r boot.Reply
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return r
}

func (w *wire) expect(t *testing.T, event string) boot.Reply {
	t.Helper()
	r := w.hear(t)
	if r.Event != event {
		t.Fatalf("got %+v, want %s", r, event)
	}
	return r
}

func (w *wire) refused(t *testing.T, code api.Code) {
	t.Helper()
	if r := w.expect(t, boot.EvRefused); r.Code != code || r.Detail == "" {
		t.Errorf("got %+v, want %s", r, code)
	}
}

// closed waits until the agent has hung up.
func (w *wire) closed(t *testing.T) {
	t.Helper()
	if _, err := io.Copy(io.Discard, w.in); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the agent keeps the connection")
	}
}

// inLine redeems a ticket that has to wait for its start.
func inLine(t *testing.T, r *rig, text string) *wire {
	t.Helper()
	w := dial(t, r)
	w.say(t, boot.Request{Op: boot.OpRedeem, Ticket: text})
	w.expect(t, boot.EvInLine)
	return w
}

// Bad lines of any kind are refused in words, and cost the agent nothing.
func TestBadLines(t *testing.T) {
	r := startRig(t)
	for name, tt := range map[string]struct {
		line string
		code api.Code
	}{
		"garbage":              {"garbage", api.InvalidRequest},
		"a list":               {"[]", api.InvalidRequest},
		"empty":                {"", api.InvalidRequest},
		"bytes":                {"\x00\xff\xfe", api.InvalidRequest},
		"a wrong type":         {`{"op":7}`, api.InvalidRequest},
		"no op":                {"{}", api.InvalidRequest},
		"an unknown op":        {`{"op":"boot"}`, api.InvalidRequest},
		"track first":          {`{"op":"track","pid":1}`, api.InvalidRequest},
		"done first":           {`{"op":"done"}`, api.InvalidRequest},
		"a signal first":       {`{"op":"signal","signal":9}`, api.InvalidRequest},
		"run without command":  {`{"op":"run","ticket":"x"}`, api.InvalidRequest},
		"redeem without":       {`{"op":"redeem"}`, api.TicketRejected},
		"a line without end":   {strings.Repeat("x", boot.MaxLine+1), api.BodyTooLarge},
		"a deep one":           {strings.Repeat("[", 100_000), api.InvalidRequest},
		"a word of wrong kind": {`{"op":"run","command":{"argv":[{"bytes":7}]}}`, api.InvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			w := dial(t, r)
			go fmt.Fprintln(w.Conn, tt.line)
			w.refused(t, tt.code)
			w.closed(t)
		})
	}
	r.idle()
}

// FuzzSeam: whatever is said, the agent hangs up in the end, and nothing is held by it.
func FuzzSeam(f *testing.F) {
	r := startRig(f)
	f.Add([]byte(`{"op":"redeem","ticket":"plm1.AQ"}` + "\n" + `{"op":"track","pid":1}` + "\n"))
	f.Add([]byte(`{"op":"run","ticket":"","command":{"argv":["x"]}}`))
	f.Add([]byte("\n\n\x00{"))
	f.Fuzz(func(t *testing.T, said []byte) {
		w := dial(t, r)
		w.Write(said)
		w.Conn.(*net.UnixConn).CloseWrite()
		w.closed(t)
		if v := r.view(); len(v.Sandboxes) != 0 || v.Reservations != 0 {
			t.Errorf("held: %+v", v)
		}
	})
}

// What comes out of order is refused, and the boot goes on.
func TestOutOfOrder(t *testing.T) {
	r := startRig(t)
	w := dial(t, r)
	w.say(t, boot.Request{Op: boot.OpRedeem, Ticket: r.reserve("a", 1)})
	w.expect(t, boot.EvStart)
	for _, op := range []string{boot.OpRedeem, boot.OpRun, boot.OpSignal, "dance"} {
		w.say(t, boot.Request{Op: op})
		w.refused(t, api.InvalidRequest)
	}
	c := startChild(t, "sleep", "1000")
	w.say(t, boot.Request{Op: boot.OpTrack, Pid: c.pid()})
	w.expect(t, boot.EvTracked)
	c.Process.Kill()
	w.say(t, boot.Request{Op: boot.OpDone})
	w.expect(t, boot.EvDone)
	w.closed(t)
	r.idle()
}

// The tickets that boot nothing, each refused with its own reason.
func TestTicketsThatBootNothing(t *testing.T) {
	r := startRig(t)
	good := r.reserve("a", 5)
	flipped := []byte(good)
	if at := len(flipped) - 3; flipped[at] == 'A' { // another letter of its alphabet
		flipped[at] = 'B'
	} else {
		flipped[at] = 'A'
	}
	used := r.reserve("used", 1)
	r.redeem(used).Close()
	r.idleBut(1)
	released := r.reserve("released", 1)
	r.release("released", 1)
	superseded := r.reserve("superseded", 1)
	newer := r.reserve("superseded", 2)
	lapsed := r.reserveFor("lapsed", 1, 20*time.Millisecond, ask())
	r.eventually("it to lapse", func() bool { return r.view().Reservations == 2 })

	for name, tt := range map[string]struct {
		text string
		code api.Code
		says string
	}{
		"missing":         {"", api.TicketRejected, ticket.Missing.String()},
		"malformed":       {"plm1.x", api.TicketRejected, ticket.Malformed.String()},
		"no ticket":       {"hello", api.TicketRejected, ticket.Malformed.String()},
		"cut":             {good[:len(good)-1], api.TicketRejected, ticket.Malformed.String()},
		"forged":          {string(flipped), api.TicketRejected, ticket.Forged.String()},
		"other key ring":  {mintWith(t, newRing(t, "k2"), hostID, "a", 5, ask().Memory), api.TicketRejected, ticket.Forged.String()},
		"same key id":     {mintWith(t, sameID(t), hostID, "a", 5, ask().Memory), api.TicketRejected, ticket.Forged.String()},
		"other host":      {mintWith(t, r.ring, "h2", "a", 5, ask().Memory), api.TicketRejected, ticket.OtherHost.String()},
		"lower epoch":     {r.mint("a", 4, ask().Memory), api.TicketRejected, ticket.Superseded.String()},
		"higher epoch":    {r.mint("a", 6, ask().Memory), api.ReservationLapsed, "no reservation"},
		"never reserved":  {r.mint("ghost", 1, ask().Memory), api.ReservationLapsed, "no reservation"},
		"lapsed":          {lapsed, api.ReservationLapsed, "no reservation"},
		"released":        {released, api.TicketRejected, ticket.Released.String()},
		"superseded":      {superseded, api.TicketRejected, ticket.Superseded.String()},
		"used":            {used, api.TicketRejected, ticket.Replayed.String()},
		"a million bytes": {strings.Repeat("A", 1<<20), api.TicketRejected, ticket.Malformed.String()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.boot.Redeem(t.Context(), tt.text)
			refused(t, err, tt.code, tt.says)
			_, _, _, err = r.run(tt.text, shell("touch "+r.tmp+"/ran"))
			refused(t, err, tt.code, tt.says)
			if tt.text != "" && len(tt.text) > 40 && strings.Contains(err.Error(), tt.text[len(tt.text)-20:]) {
				t.Error("the refusal echoes the ticket's MAC")
			}
		})
	}
	if _, err := os.Stat(r.tmp + "/ran"); err == nil {
		t.Error("something ran")
	}
	r.redeem(newer).Close()
	r.redeem(good).Close()
	r.idle()
}

// sameID is another key under the id of the agent's own.
func sameID(t *testing.T) ticket.Keyring {
	t.Helper()
	return newRingOf(t, "k1", "another secret")
}

// idleBut waits until nothing is charged and so much is reserved.
func (r *rig) idleBut(reserved int) {
	r.t.Helper()
	r.eventually("nothing to be charged", func() bool {
		v := r.view()
		return len(v.Sandboxes) == 0 && v.Reservations == reserved
	})
}

// Draining and a lost bet refuse a boot before anything is closed, and attempt may move it;
// cordon lets what was promised boot.
func TestTheHostRefusesABoot(t *testing.T) {
	r := startRig(t)
	text := r.reserve("a", 1)
	r.order(host.IntakeDraining)
	_, err := r.boot.Redeem(t.Context(), text)
	refused(t, err, api.HostDraining, "")
	r.order(host.IntakeCordoned)
	r.redeem(text).Close()
	r.idle()
	r.order(host.IntakeOpen)

	text = r.reserve("b", 1)
	r.restart(func() { r.cfg.Host.Headroom = 1 << 50 }) // so free < ¼ of it: the bet is lost
	_, err = r.boot.Redeem(t.Context(), text)
	refused(t, err, api.HostPressure, "")
	r.restart(func() { r.cfg.Host.Headroom = 0 })
	r.redeem(text).Close()
	r.idle()
}

func (r *rig) order(i host.Intake) {
	r.t.Helper()
	if a, err := r.Do(r.t.Context(), host.SetIntake{Intake: i}); err != nil || a.Denial != "" {
		r.t.Fatalf("%v %v", a.Denial, err)
	}
}

// A socket that answers is another agent's; a file that is no socket is nobody's to remove.
func TestListen(t *testing.T) {
	r := startRig(t)
	if _, err := r.Listen(); err == nil || !strings.Contains(err.Error(), "another running agent") {
		t.Errorf("a second listener: %v", err)
	}
	cfg := r.cfg
	if _, err := agent.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second agent on the same state: %v", err)
	}
	cfg.Dir, cfg.Socket = t.TempDir(), r.tmp+"/precious"
	os.WriteFile(cfg.Socket, []byte("data"), 0o600)
	other, err := agent.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Listen(); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("over a file: %v", err)
	}
	if data, _ := os.ReadFile(cfg.Socket); string(data) != "data" {
		t.Error("the file is gone")
	}
	cfg.Dir, cfg.Socket = t.TempDir(), "/tmp/"+strings.Repeat("x", 120)
	other, err = agent.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Listen(); err == nil || !strings.Contains(err.Error(), "shorter than 108 bytes") {
		t.Errorf("a long path: %v", err)
	}
}

// Whoever opens connections until no descriptor is left does not end the agent.
func TestOutOfDescriptors(t *testing.T) {
	r := startRig(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = uint64(descriptors(t) + 20)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Skip(err)
	}
	var open []net.Conn
	for range 40 {
		c, err := net.Dial("unix", r.boot.Socket)
		if err != nil {
			break
		}
		open = append(open, c)
	}
	r.eventually("the agent to say so", func() bool { return strings.Contains(r.log.String(), "no boot can connect") })
	unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	for _, c := range open {
		c.Close()
	}
	r.redeem(r.reserve("a", 1)).Close()
	r.idle()
}
