package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// file is a file of the agent's data directory; "" if it is not there.
func (r *rig) file(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.cfg.Dir, name))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return string(text)
}

// lineWith finds the first line behind the header that has the text.
func lineWith(t *testing.T, text, has string) (before, line, after string) {
	t.Helper()
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if i > 0 && strings.Contains(line, has) {
			return strings.Join(lines[:i], ""), line, strings.Join(lines[i+1:], "")
		}
	}
	t.Fatalf("no %q in %s", has, text)
	return "", "", ""
}

// spoil puts a line that says nothing in front of the first one that has the text.
func spoil(t *testing.T, text, has string) string {
	before, line, after := lineWith(t, text, has)
	return before + "\x00\x00\x00\x00\n" + line + after
}

// zero overwrites the first line that has the text, as a block that was never written.
func zero(t *testing.T, text, has string) string {
	before, line, after := lineWith(t, text, has)
	return before + strings.Repeat("\x00", len(line)) + after
}

// redeemed is what the line of a redeemed reservation has.
const redeemed = `"state":1`

func (r *rig) saysAll(words ...string) {
	r.t.Helper()
	for _, w := range words {
		if !strings.Contains(r.log.String(), w) {
			r.t.Errorf("the log does not say %q", w)
		}
	}
}

// keeps fails unless this, and for its owner alone, is what is kept of a state.
func (r *rig) keeps(want string) {
	r.t.Helper()
	if got := r.file("state.log.bad"); got != want {
		r.t.Errorf("kept is %q, want %q", got, want)
	}
	info, err := os.Stat(filepath.Join(r.cfg.Dir, "state.log.bad"))
	if want != "" && (err != nil || info.Mode().Perm() != 0o600) {
		r.t.Errorf("kept with %v, %v", info, err)
	}
}

// T29: a reservation is open before a bad line, and redeemed behind it. Its ticket boots nothing
// again, nor does a late frame of the former life open it; what runs is charged as before.
func TestRedeemedBehindABadLine(t *testing.T) {
	for name, change := range map[string]func(*testing.T, string, string) string{"a bad line": spoil, "zeroed": zero} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t)
			used := r.reserve("a", 1)
			s := r.redeem(used)
			c := startChild(t, "sleep", "1000")
			if err := s.Track(t.Context(), c.pid()); err != nil {
				t.Fatal(err)
			}
			open := r.reserve("b", 1)
			old := r.view().Verdict
			var bad string
			r.restart(func() {
				r.edit(func(text string) string { bad = change(t, text, redeemed); return bad })
			})
			for ticket, id := range map[string]string{used: "a", open: "b"} {
				if again, err := r.boot.Redeem(t.Context(), ticket); err == nil {
					t.Errorf("%s is redeemed again", id)
					again.Close()
				}
			}
			_, err := r.boot.Redeem(t.Context(), open)
			refused(t, err, api.ReservationLapsed, "")
			v := r.view()
			a, err := r.Do(t.Context(), host.Reserve{ID: "a", Gen: 1, Ask: ask(), Until: v.Verdict.At + time.Second, Incarnation: old.Incarnation})
			if err != nil || a.Denial != host.OtherLife || v.Verdict.Incarnation <= old.Incarnation {
				t.Errorf("a late frame of the old life: %v %v; life %d after %d", a.Denial, err, v.Verdict.Incarnation, old.Incarnation)
			}
			if s, there := r.sandbox("a"); !there || s.Process.Pid != c.pid() || !alive(c.pid()) {
				t.Errorf("what runs is forgotten: %+v", s)
			}
			r.saysAll("level=ERROR", "taken over only in part", "lines_dropped=1", "first_bad_line=", "registers anew", "remedy=", "state.log.bad")
			r.keeps(bad)
			// The next life finds nothing to doubt.
			life := v.Verdict.Incarnation
			r.restart()
			if v := r.view(); v.Verdict.Incarnation != life || len(v.Sandboxes) != 1 {
				t.Errorf("life %d after %d, %d run", v.Verdict.Incarnation, life, len(v.Sandboxes))
			}
			r.keeps(bad)
		})
	}
}

// Whatever became of the file, its operator is told, what was not believed is kept, and no ticket
// boots twice.
func TestAStateThatIsDoubted(t *testing.T) {
	swap := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	for name, c := range map[string]struct {
		change func(string) string
		says   []string
		kept   bool // beside the new file
		goesOn bool // under the same life
	}{
		"a torn tail":     {func(s string) string { return s + `{"kind":"reservation","id":"b","sta` }, []string{"level=INFO", "is torn", "bytes=35"}, false, true},
		"zeroes behind":   {func(s string) string { return s + "\x00\x00\x00" }, []string{"level=ERROR", "damaged", "lines_dropped=1"}, true, false},
		"a bad last line": {func(s string) string { return s + "{\n" }, []string{"level=ERROR", "damaged", "lines_dropped=1"}, true, false},
		"a later version": {swap(`"version":1`, `"version":2`), []string{"level=WARN", "another version", "version=2", "reads_version=1", "lines_taken=0", "is void", "remedy="}, true, false},
		"another boot":    {swap(`"boot_id":"`, `"boot_id":"x`), []string{"level=INFO", "another boot", "registers anew"}, false, false},
		"another host":    {swap(`"host":"h1"`, `"host":"h2"`), []string{"level=WARN", "another host", "of=h2", "remedy="}, true, false},
		"garbage":         {func(string) string { return "\x00\x01garbage\nmore" }, []string{"level=ERROR", "whose it is", "lines_dropped=2", "remedy="}, true, false},
		"a torn header":   {func(s string) string { return s[:20] }, []string{"level=ERROR", "whose it is", "lines_dropped=1"}, true, false},
		"an empty file":   {func(string) string { return "" }, []string{"level=ERROR", "it is empty", "lines_dropped=0"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t)
			used, open := r.reserve("a", 1), r.reserve("b", 1)
			s := r.redeem(used)
			p := startChild(t, "sleep", "1000")
			if err := s.Track(t.Context(), p.pid()); err != nil {
				t.Fatal(err)
			}
			life, bad, begun := r.view().Verdict.Incarnation, "", hostmem.BootTime()
			r.restart(func() { r.edit(func(s string) string { bad = c.change(s); return bad }) })
			r.saysAll(c.says...)
			if !c.kept {
				bad = ""
			}
			r.keeps(bad)
			var head struct{ Begun host.Instant }
			first, _, _ := strings.Cut(r.file("state.log"), "\n")
			if err := json.Unmarshal([]byte(first), &head); err != nil || (head.Begun > begun) == c.goesOn {
				t.Errorf("memory begun at %v, the agent was ended at %v (%v)", head.Begun, begun, err)
			}
			if again, err := r.boot.Redeem(t.Context(), used); err == nil {
				t.Error("what runs boots again")
				again.Close()
			}
			if got := r.view().Verdict.Incarnation; (got == life) != c.goesOn {
				t.Errorf("life %d after %d", got, life)
			}
			if !c.goesOn {
				_, err := r.boot.Redeem(t.Context(), open)
				refused(t, err, api.ReservationLapsed, "")
				return
			}
			r.redeem(open).Close()
			r.eventually("it to be freed", func() bool { _, there := r.sandbox("b"); return !there })
			_, err := r.boot.Redeem(t.Context(), open)
			refused(t, err, api.TicketRejected, "replayed")
		})
	}
}

// What only a lost line knew of, and what has the name of something that a lost line had ended,
// runs on: it is out of gate, and nobody takes the one for the other.
func TestWhatALostLineKnewRunsOn(t *testing.T) {
	r := startRig(t)
	if len(r.cfg.Driver.Warnings()) > 0 {
		t.Skip("the driver makes no cgroups here")
	}
	first := r.detached("a", 1, "exec sleep 1000")
	r.release("a", 1)
	r.idle()
	second := r.detached("a", 2, "exec sleep 1000")
	tracked := r.detached("b", 1, "exec sleep 1000")
	r.restart(func() {
		r.edit(func(s string) string {
			head, _, _ := strings.Cut(s, "\n")
			_, ran, _ := lineWith(t, s, fmt.Sprintf(`"pid":%d,`, first))
			_, starting, _ := lineWith(t, s, `"kind":"sandbox","id":"b"`)
			return head + "\n" + ran + starting + "\x00\x00\n"
		})
	})
	r.eventually("both to be found", func() bool {
		held, err := r.Holding(t.Context())
		return err == nil && len(held.OutOfGate) == 2
	})
	if v := r.view(); len(v.Sandboxes) != 0 || !alive(second) || !alive(tracked) {
		t.Errorf("%d charged; alive %v, %v", len(v.Sandboxes), alive(second), alive(tracked))
	}
	for _, pid := range []int{second, tracked} {
		unix.Kill(pid, unix.SIGKILL)
	}
	for _, id := range []string{"a", "b"} {
		if err := r.Clear(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

// What ends after lines were lost is not kept for another start: it may have had that already.
func TestNoNextStartAfterLostLines(t *testing.T) {
	r := startRig(t)
	holds := ask()
	holds.HoldOnExit = true
	ticket := r.reserveFor("a", 1, time.Minute, holds)
	s := r.redeem(ticket)
	c := startChild(t, "sleep", "1000")
	if err := s.Track(t.Context(), c.pid()); err != nil {
		t.Fatal(err)
	}
	r.restart(func() { r.edit(func(s string) string { return s + "\x00\n" }) })
	c.Process.Kill()
	r.told("a", host.Exited, "")
	if again, err := r.boot.Redeem(t.Context(), ticket); err == nil {
		t.Error("it starts again")
		again.Close()
	}
	r.idle()
}

// One generation is kept, on a full disk too, where there are no second names a copy, and where
// nothing can be kept the file stays what it was, and nothing boots.
func TestWhatIsKept(t *testing.T) {
	disk := newSmallDisk(t)
	r := newRig(t, func(c *agent.Config) { c.Dir = disk.dir })
	path := filepath.Join(disk.dir, "state.log")
	doubted := func(text string) (*agent.Agent, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return agent.New(t.Context(), r.withDriver())
	}
	for _, text := range []string{"one\n", "two\n"} {
		a, err := doubted(text)
		if err != nil {
			t.Fatal(err)
		}
		a.CloseState()
		r.keeps(text)
	}

	if err := errors.Join(os.WriteFile(path, []byte("three\n"), 0o600), os.Remove(path+".bad")); err != nil { // which would make room
		t.Fatal(err)
	}
	disk.fill(t)
	if _, err := agent.New(t.Context(), r.withDriver()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a full disk: %v", err)
	}
	r.keeps("three\n")
	if got := r.file("state.log"); got != "three\n" {
		t.Errorf("the state became %q", got)
	}
	disk.makeRoom()

	if err := os.MkdirAll(path+".bad.new/in/the/way", 0o700); err != nil {
		t.Fatal(err)
	}
	a, err := doubted("four\n")
	if err != nil {
		t.Fatal(err)
	}
	a.CloseState()
	r.keeps("four\n")

	if err := errors.Join(os.Remove(path+".bad"), os.MkdirAll(path+".bad/in/the/way", 0o700)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = doubted("five\n")
		if err == nil || !strings.Contains(err.Error(), "boots nothing until there is room") {
			t.Errorf("nothing can be kept: %v", err)
		}
		if got := r.file("state.log"); got != "five\n" {
			t.Errorf("the state became %q", got)
		}
	}
}

// killedMain is an agent that is killed, as by kill -9, when it has read its state and registers.
func killedMain(dir string) int {
	machine, err := hostmem.Discover("/")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = agent.New(context.Background(), agent.Config{
		Host: host.DefaultConfig(hostID, 2), Budget: gate.GiB, Dir: dir, Machine: machine, Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
		Register: func(context.Context, string) (int64, error) {
			err := syscall.Kill(os.Getpid(), syscall.SIGKILL)
			return 0, err
		},
	})
	fmt.Println(err)
	return 1
}

// A kill -9 between keeping the doubted file and replacing it loses neither, however often.
func TestKilledBetween(t *testing.T) {
	r := startRig(t)
	used := r.reserve("a", 1)
	s := r.redeem(used)
	c := startChild(t, "sleep", "1000")
	if err := s.Track(t.Context(), c.pid()); err != nil {
		t.Fatal(err)
	}
	var bad string
	r.restart(func() {
		r.edit(func(text string) string { bad = spoil(t, text, redeemed); return bad })
		for range 3 {
			var out bytes.Buffer
			killed := exec.Command("/proc/self/exe", "test-killed", r.tmp)
			killed.Stdout = &out
			if err := killed.Run(); killed.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%v: %s", err, &out)
			}
			if !strings.Contains(out.String(), "taken over only in part") {
				t.Errorf("it said %s", &out)
			}
			if got := r.file("state.log"); got != bad {
				t.Errorf("the state became %q", got)
			}
			r.keeps(bad)
		}
	})
	r.keeps(bad)
	if got := r.file("state.log.bad.new"); got != "" {
		t.Errorf("left behind: %q", got)
	}
	if again, err := r.boot.Redeem(t.Context(), used); err == nil {
		t.Error("it is redeemed again")
		again.Close()
	}
	if s, there := r.sandbox("a"); !there || s.Process.Pid != c.pid() {
		t.Errorf("what runs is forgotten: %+v", s)
	}
}
