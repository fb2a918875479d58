package agent_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
)

// Whatever a command writes arrives, on the stream that it was written to.
func TestRunOutput(t *testing.T) {
	r := startRig(t)
	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<17) // 2 MiB
	bigFile := filepath.Join(r.tmp, "big")
	if err := os.WriteFile(bigFile, big, 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(r.tmp, "binary")
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	if err := os.WriteFile(binary, every, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		script, stdout, stderr string
		status                 int
	}{
		"nothing":         {"true", "", "", 0},
		"both":            {"echo out; echo err >&2; exit 3", "out\n", "err\n", 3},
		"no last newline": {"printf out; printf err >&2", "out", "err", 0},
		"binary":          {"cat " + binary, string(every), "", 0},
		"large":           {"cat " + bigFile + "; cat " + bigFile + " >&2", string(big), string(big), 0},
		"a late word":     {"sleep 0.1; echo late", "late\n", "", 0},
		"a child's":       {"(echo child) ; exit 255", "child\n", "", 255},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, exit, err := r.run(r.reserve("a", time.Now().UnixNano()), shell(tt.script))
			if err != nil {
				t.Fatal(err)
			}
			if sha256.Sum256([]byte(out)) != sha256.Sum256([]byte(tt.stdout)) || errs != tt.stderr {
				t.Errorf("wrote %d and %d bytes, want %d and %d", len(out), len(errs), len(tt.stdout), len(tt.stderr))
			}
			if exit != (boot.Exit{Status: tt.status}) {
				t.Errorf("exit %+v, want %d", exit, tt.status)
			}
			// When the end is told everything is free: the next create may have it.
			if v := r.view(); len(v.Sandboxes) != 0 {
				t.Errorf("still charged: %+v", v.Sandboxes)
			}
		})
	}
}

func TestRunEndsBySignal(t *testing.T) {
	r := startRig(t)
	for sig, want := range map[string]boot.Exit{
		"KILL": {Status: 137, Signal: "SIGKILL"},
		"SEGV": {Status: 139, Signal: "SIGSEGV"},
	} {
		_, _, exit, err := r.run(r.reserve("a", time.Now().UnixNano()), shell("kill -"+sig+" $$"))
		if err != nil || exit != want {
			t.Errorf("%s: %+v %v", sig, exit, err)
		}
	}
}

// T102: a sandbox that meets its own limit is told apart from a bystander.
func TestRunMeetsItsOwnLimit(t *testing.T) {
	r := startRig(t)
	if len(r.cfg.Driver.Warnings()) > 0 {
		t.Skip(r.cfg.Driver.Warnings())
	}
	small := ask()
	small.Memory = 64 * gate.MiB
	_, _, exit, err := r.run(r.reserveFor("a", 1, time.Minute, small), boot.Command{Argv: []string{"tail", "/dev/zero"}})
	if err != nil || exit != (boot.Exit{Status: 137, Signal: "SIGKILL", OOM: true}) {
		t.Errorf("%+v %v", exit, err)
	}
	r.idle()
}

func TestRunPassesSignalsOn(t *testing.T) {
	r := startRig(t)
	signals := make(chan int, 2)
	out := &onWrite{then: func() { signals <- int(syscall.SIGUSR1) }}
	exit, err := r.boot.Run(t.Context(), r.reserve("a", 1),
		shell(`trap "exit 42" USR1; echo ready; while :; do sleep 0.01; done`), out, io.Discard, signals)
	if err != nil || exit.Status != 42 {
		t.Errorf("%+v %v", exit, err)
	}
	// One that writes faster than anybody reads still hears of a signal.
	signals = make(chan int, 2)
	out = &onWrite{then: func() { signals <- int(syscall.SIGTERM); close(signals) }}
	exit, err = r.boot.Run(t.Context(), r.reserve("a", 2),
		shell(`while :; do head -c 200000 /dev/zero; done`), out, io.Discard, signals)
	if err != nil || exit.Signal != "SIGTERM" {
		t.Errorf("%+v %v", exit, err)
	}
	r.idle()
}

// onWrite does something at the first write.
type onWrite struct {
	then func()
	n    int
}

func (w *onWrite) Write(p []byte) (int, error) {
	if w.n += len(p); w.then != nil {
		w.then()
		w.then = nil
	}
	return len(p), nil
}

// The connection is the sandbox's life, unless it was detached.
func TestRunHangsUp(t *testing.T) {
	r := startRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	out := &onWrite{then: cancel}
	_, err := r.boot.Run(ctx, r.reserve("a", 1), shell("echo ready; exec sleep 1000"), out, io.Discard, nil)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.idle()
	pid := r.detached("b", 1, "exec sleep 1000")
	if !alive(pid) {
		t.Error("a detached one did not outlive its connection")
	}
	// A caller that cannot take the output is one that hung up.
	_, err = r.boot.Run(t.Context(), r.reserve("c", 1), shell("echo x; exec sleep 1000"), brokenPipe{}, io.Discard, nil)
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	r.eventually("c to be stopped", func() bool { _, there := r.sandbox("c"); return !there })
	r.release("b", 1)
	r.idle()
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A sandbox that was released is stopped, and its caller told the end.
func TestRunIsReleased(t *testing.T) {
	r := startRig(t)
	out := &onWrite{then: func() { r.release("a", 1) }}
	exit, err := r.boot.Run(t.Context(), r.reserve("a", 1), shell("echo ready; exec sleep 1000"), out, io.Discard, nil)
	if err != nil || exit.Signal != "SIGTERM" {
		t.Errorf("%+v %v", exit, err)
	}
	r.idle()
}

// The command gets what it was given, and nothing of the agent's; an argument of any bytes
// arrives as it is.
func TestRunEnvironmentAndDirectory(t *testing.T) {
	r := startRig(t)
	t.Setenv("PLIMSOLL_SECRET", "the agent's own")
	out, _, _, err := r.run(r.reserve("a", 1), boot.Command{
		Argv: []string{"/usr/bin/env"}, Env: []string{"A=1", "ODD=\xff\xfe"}, Dir: r.tmp,
	})
	if err != nil || out != "A=1\nODD=\xff\xfe\n" {
		t.Errorf("%q %v", out, err)
	}
	out, _, _, err = r.run(r.reserve("a", 2), boot.Command{Argv: []string{"/bin/echo", "-n", "\xc3\x28", "é"}})
	if err != nil || out != "\xc3\x28 é" {
		t.Errorf("%q %v", out, err)
	}
	out, _, _, err = r.run(r.reserve("a", 3), boot.Command{Argv: []string{"/bin/pwd"}, Dir: r.tmp})
	if err != nil || out != r.tmp+"\n" {
		t.Errorf("%q %v", out, err)
	}
	_, _, _, err = r.run(r.reserve("a", 4), boot.Command{Argv: []string{"true", strings.Repeat("x", boot.MaxLine)}})
	refused(t, err, api.BodyTooLarge, "by file")
	_, _, _, err = r.run(r.reserve("a", 5), boot.Command{Argv: []string{"true"}, Dir: "relative"})
	refused(t, err, api.InvalidRequest, "absolute")
}

// A command runs as whoever asks, with the groups that the asker has and no others.
func TestRunAsThePeer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be two users")
	}
	r := startRig(t)
	c := shell("id -u; id -g; id -G; cat /proc/self/oom_score_adj; grep CapEff /proc/self/status")
	out, err := booter(t, booterOrder{Socket: r.boot.Socket, Ticket: r.reserve("a", 1), Run: &c}, 65534).CombinedOutput()
	want := "65534\n65534\n65534 4242\n500\nCapEff:\t0000000000000000\n"
	// The agent may have told the kernel of its place among all by then.
	got := strings.Replace(string(out), "\n900\n", "\n500\n", 1)
	if err != nil || got != want {
		t.Errorf("%s %v, want %s", out, err, want)
	}
	r.idle()
}

// The output of ended sandboxes goes after a day, or when there is too much of it; that of
// one that runs stays.
func TestOldLogsAreRemoved(t *testing.T) {
	r := startRig(t)
	r.run(r.reserve("ended", 1), shell("echo x"))
	r.detached("runs", 1, "echo y; exec sleep 1000")
	kept := func(id string) bool {
		stdout, stderr := r.cfg.Driver.Logs(id)
		_, err1 := os.Stat(stdout)
		_, err2 := os.Stat(stderr)
		return err1 == nil && err2 == nil
	}
	logs := filepath.Join(r.tmp, "logs")
	os.WriteFile(filepath.Join(logs, "notes.txt"), nil, 0o600)
	check := func(then time.Time, ended bool) {
		t.Helper()
		if err := r.Tidy(t.Context(), then); err != nil {
			t.Fatal(err)
		}
		if kept("ended") != ended || !kept("runs") {
			t.Errorf("at %v: ended %v, runs %v", then, kept("ended"), kept("runs"))
		}
		if _, err := os.Stat(filepath.Join(logs, "notes.txt")); err != nil {
			t.Error("it removed what is no log")
		}
	}
	check(time.Now(), true)
	for i := range 1000 { // newer ones
		for _, kind := range []string{"stdout", "stderr"} {
			name := filepath.Join(logs, fmt.Sprintf("n%d.%s.log", i, kind))
			os.WriteFile(name, nil, 0o600)
			os.Chtimes(name, time.Time{}, time.Now().Add(time.Minute))
		}
	}
	check(time.Now(), false)
	r.run(r.reserve("ended", 2), shell("echo x"))
	check(time.Now().Add(25*time.Hour), false)
	if v, _ := r.sandbox("runs"); v.Phase != host.Running {
		t.Error("it ended one that runs")
	}
}

// One that writes without end takes a bounded part of the disk, whether somebody reads along
// or not; a reader who is too slow is told what is missing, and has the newest.
func TestOutputWithoutEnd(t *testing.T) {
	r := startRig(t)
	half := filepath.Join(r.tmp, "half")
	more := filepath.Join(r.tmp, "more")
	script := fmt.Sprintf(`echo first; head -c %d /dev/zero | tr '\0' x; touch %s; while ! test -e %s; do sleep 0.01; done; echo last`, 3*agent.LogKeeps, half, more)
	stdout, _ := r.cfg.Driver.Logs("a")
	var out bytes.Buffer
	reader := &onWrite{then: func() {
		// The first word has come, and nothing more is read until there is too much of it.
		r.eventually("it to be written", func() bool { _, err := os.Stat(half); return err == nil })
		if err := r.Trim(t.Context()); err != nil {
			t.Error(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(stdout, &st); err != nil || st.Blocks*512 > 2*agent.LogKeeps {
			t.Errorf("its log takes %d bytes (%v)", st.Blocks*512, err)
		}
		os.WriteFile(more, nil, 0o644)
	}}
	exit, err := r.boot.Run(t.Context(), r.reserve("a", 1), shell(script), io.MultiWriter(&out, reader), io.Discard, nil)
	if err != nil || exit.Status != 0 {
		t.Fatalf("%+v %v", exit, err)
	}
	text := out.String()
	if !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "xlast\n") || !strings.Contains(text, "bytes of output are missing here") {
		t.Errorf("it read %d bytes, from %.40q to %q", len(text), text, text[max(len(text)-40, 0):])
	}
	if strings.Contains(text, "\x00") {
		t.Error("it read what is not there as zeros")
	}
	// That of one that nobody reads along.
	os.Remove(half)
	os.Remove(more)
	r.detached("b", 1, script)
	r.eventually("it to be written", func() bool { _, err := os.Stat(half); return err == nil })
	if err := r.Trim(t.Context()); err != nil {
		t.Error(err)
	}
	stdout, _ = r.cfg.Driver.Logs("b")
	var st unix.Stat_t
	if err := unix.Stat(stdout, &st); err != nil || st.Blocks*512 > 2*agent.LogKeeps || st.Size < 3*agent.LogKeeps {
		t.Errorf("its log takes %d of %d bytes (%v)", st.Blocks*512, st.Size, err)
	}
}
