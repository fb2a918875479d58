package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/driver"
)

// A restarted agent knows what it promised, what runs and what is used up.
func TestRestart(t *testing.T) {
	r := startRig(t)
	pid := r.detached("runs", 1, "exec sleep 1000")
	used := r.mint("runs", 1, ask().Memory)
	open := r.reserve("open", 1)
	r.order(host.IntakeCordoned)
	before := r.view()
	r.restart()
	after := r.view()
	if after.Verdict.Incarnation != before.Verdict.Incarnation || !after.Verdict.Newer(before.Verdict) {
		t.Errorf("verdict %+v after %+v", after.Verdict, before.Verdict)
	}
	if s, _ := r.sandbox("runs"); s.Phase != host.Running || s.Process.Pid != pid || !alive(pid) {
		t.Errorf("not re-adopted: %+v", s)
	}
	if after.Verdict.Intake != host.IntakeCordoned {
		t.Errorf("the order is forgotten: %v", after.Verdict.Intake)
	}
	_, err := r.boot.Redeem(t.Context(), used)
	refused(t, err, api.TicketRejected, "replayed")
	r.redeem(open).Close()
	r.eventually("open to be freed", func() bool { _, there := r.sandbox("open"); return !there })
	_, err = r.boot.Redeem(t.Context(), open)
	refused(t, err, api.TicketRejected, "replayed")
	r.eventually("it to be measured", func() bool { s, _ := r.sandbox("runs"); return s.Usage.Resident > 0 })
	// Its end is seen as any other's.
	unix.Kill(pid, unix.SIGKILL)
	r.idle()
}

// told waits until an end is among those that no replica has written.
func (r *rig) told(id string, how host.Outcome, says string) {
	r.t.Helper()
	r.eventually("the end of "+id, func() bool {
		held, err := r.Holding(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		for _, e := range held.Ends {
			if e.ID == id {
				if e.How != how || !strings.Contains(e.Reason, says) {
					r.t.Errorf("end %+v, want %s, %q", e, how, says)
				}
				return true
			}
		}
		return false
	})
}

// T29, T32, T37: what ended, lapsed or lost its booter while the agent was away is told, and
// nothing of it stays.
func TestWhatHappenedMeanwhile(t *testing.T) {
	r := startRig(t, func(c *agent.Config) { c.Host.MaxStarts = 1 })
	// Its main process dies, and leaves a child in the cgroup.
	pidfile := filepath.Join(r.tmp, "child")
	pid := r.detached("ended", 1, "sleep 1000 & echo $! > "+pidfile+".new; mv "+pidfile+".new "+pidfile+"; exec sleep 1000")
	var child int
	r.eventually("the child", func() bool {
		text, err := os.ReadFile(pidfile)
		_, scan := fmt.Sscan(string(text), &child)
		return err == nil && scan == nil
	})
	lapsed := r.reserveFor("lapsed", 1, 300*time.Millisecond, ask())
	first := r.redeem(r.reserve("starting", 1))
	second := inLine(t, r, r.reserve("waiting", 1))
	until := time.Now().Add(350 * time.Millisecond)
	r.restart(func() {
		unix.Kill(pid, unix.SIGKILL)
		unix.Wait4(pid, nil, 0, nil) // as init does of an orphan; here we are its parent
		eventually(t, "it to lapse", func() bool { return time.Now().After(until) })
	})
	second.closed(t)
	first.Close()
	r.told("ended", host.Exited, "while the agent was away")
	r.told("lapsed", host.Lapsed, "not redeemed")
	r.told("starting", host.Exited, "")
	r.told("waiting", host.Exited, "")
	r.idle()
	if len(r.cfg.Driver.Warnings()) == 0 && alive(child) {
		t.Error("what the sandbox left runs on")
	}
	if _, err := r.boot.Redeem(t.Context(), lapsed); err == nil {
		t.Error("a lapsed one boots")
	} else {
		refused(t, err, api.ReservationLapsed, "")
	}
	// An end is told until somebody has written it, however often the agent is restarted.
	r.restart()
	r.told("ended", host.Exited, "while the agent was away")
	for _, id := range []string{"ended", "lapsed", "starting", "waiting"} {
		if _, err := r.Do(t.Context(), host.Acked{ID: id, Epoch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	r.restart()
	if held, err := r.Holding(t.Context()); err != nil || len(held.Ends) != 0 {
		t.Errorf("told again: %+v %v", held.Ends, err)
	}
}

// A release that had begun goes on.
func TestAStopGoesOnAfterARestart(t *testing.T) {
	r := startRig(t)
	ready := filepath.Join(r.tmp, "ready")
	pid := r.detached("a", 1, `trap "" TERM; touch `+ready+`; while :; do sleep 0.01; done`)
	r.eventually("it to be ready", func() bool { _, err := os.Stat(ready); return err == nil })
	r.release("a", 1)
	r.restart()
	r.idle()
	if alive(pid) {
		t.Error("it runs on")
	}
}

// A tracked process whose pid is another's by now is over, whoever has the pid.
func TestAPidThatIsAnothers(t *testing.T) {
	r := startRig(t)
	pid := r.detached("a", 1, "exec sleep 1000")
	r.restart(func() {
		r.edit(func(text string) string {
			s := fmt.Sprintf(`"pid":%d,"start":`, pid)
			if !strings.Contains(text, s) {
				t.Fatal(text)
			}
			return strings.Replace(text, s, s+"1", 1)
		})
	})
	r.told("a", host.Exited, "while the agent was away")
	r.idle()
}

func (r *rig) edit(change func(string) string) {
	r.t.Helper()
	name := filepath.Join(r.tmp, "state.log")
	text, err := os.ReadFile(name)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(change(string(text))), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// A state that cannot be trusted is none: the host registers anew, what the old life promised
// is void, and what runs is found.
func TestAStateThatIsNotOurs(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"lost":             nil,
		"empty":            func(string) string { return "" },
		"garbage":          func(string) string { return "\x00\x01garbage\n" },
		"no header's end":  func(s string) string { return strings.SplitAfter(s, "}")[0] },
		"another boot's":   func(s string) string { return strings.Replace(s, `"boot_id":"`, `"boot_id":"x`, 1) },
		"another host's":   func(s string) string { return strings.Replace(s, `"host":"h1"`, `"host":"h2"`, 1) },
		"another version'": func(s string) string { return strings.Replace(s, `"version":1`, `"version":2`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t)
			text := r.reserve("a", 1)
			pid := r.detached("b", 1, "exec sleep 1000")
			old := r.view().Verdict
			r.restart(func() {
				if change == nil {
					os.Remove(filepath.Join(r.tmp, "state.log"))
					return
				}
				r.edit(change)
			})
			v := r.view()
			if v.Verdict.Incarnation != old.Incarnation+1 || v.Reservations != 0 || len(v.Sandboxes) != 0 {
				t.Errorf("incarnation %d after %d, %d reserved, %d charged", v.Verdict.Incarnation, old.Incarnation, v.Reservations, len(v.Sandboxes))
			}
			_, err := r.boot.Redeem(t.Context(), text)
			refused(t, err, api.ReservationLapsed, "")
			// A frame that was meant for the old life opens nothing in this one.
			a, err := r.Do(t.Context(), host.Reserve{ID: "c", Gen: 1, Ask: ask(), Until: v.Verdict.At + time.Minute, Incarnation: old.Incarnation})
			if err != nil || a.Denial != host.OtherLife {
				t.Errorf("reserve of the old life: %v %v", a.Denial, err)
			}
			if len(r.cfg.Driver.Warnings()) == 0 {
				r.eventually("the stray to be found", func() bool { return strings.Contains(r.log.String(), "runs out of gate") })
				held, err := r.Holding(t.Context())
				if s := held.OutOfGate; err != nil || len(s) != 1 || s[0].ID != "b" || !slices.Contains(s[0].PIDs, pid) {
					t.Errorf("out of gate %+v, %v", s, err)
				}
			}
			if !alive(pid) {
				t.Error("it was killed")
			}
			unix.Kill(pid, unix.SIGKILL)
			r.Clear(t.Context(), "b")
			if held, err := r.Holding(t.Context()); err != nil || len(held.OutOfGate) != 0 {
				t.Errorf("cleared, and out of gate %+v, %v", held.OutOfGate, err)
			}
		})
	}
}

// A torn last line is one that nobody was answered on.
func TestATornLastLine(t *testing.T) {
	r := startRig(t)
	text := r.reserve("a", 1)
	r.restart(func() {
		r.edit(func(s string) string { return s + `{"kind":"reservation","id":"a","epoch":1,"sta` })
	})
	if v := r.view(); v.Verdict.Incarnation != 1 || v.Reservations != 1 {
		t.Errorf("%+v", v)
	}
	r.redeem(text).Close()
	r.idle()
}

// A state that cannot be read is an error with its remedy, and not a new life: what runs
// would run uncharged.
func TestAStateThatCannotBeRead(t *testing.T) {
	r := newRig(t)
	var err error
	if r.cfg.Driver, err = driver.New(driver.Config{Machine: r.cfg.Machine, Parent: r.parent}); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(cfg *agent.Config){
		"it is a directory":           func(cfg *agent.Config) { os.Mkdir(filepath.Join(cfg.Dir, "state.log"), 0o700) },
		"its directory is not there":  func(cfg *agent.Config) { cfg.Dir += "/no/such" },
		"its directory is a file":     func(cfg *agent.Config) { cfg.Dir += "/f"; os.WriteFile(cfg.Dir, nil, 0o600) },
		"a directory is in the way":   func(cfg *agent.Config) { os.MkdirAll(filepath.Join(cfg.Dir, "state.log.new", "x"), 0o700) },
		"the host cannot be register": func(cfg *agent.Config) { cfg.Register = nowhere },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := r.cfg
			cfg.Dir = t.TempDir()
			spoil(&cfg)
			for range 2 { // no lock is left behind by the first
				_, err := agent.New(t.Context(), cfg)
				if err == nil {
					t.Fatal("no error")
				}
				t.Log(err)
				if strings.Contains(err.Error(), "another agent") {
					t.Error(err)
				}
			}
		})
	}
}

// Whatever a sandbox's own boot was doing when the agent stopped, the next life knows it as
// running or not at all.
func TestStopsAtAnyMomentOfABoot(t *testing.T) {
	r := startRig(t)
	for i := range int64(15) {
		text := r.reserve("a", i+1)
		c := shell("exec sleep 1000")
		c.Detach = true
		booted := make(chan error, 1)
		go func() {
			_, err := boot.Client{Socket: r.boot.Socket}.Run(t.Context(), text, c, os.Stdout, os.Stderr, nil)
			booted <- err
		}()
		select {
		case <-time.After(time.Duration(i) * 2 * time.Millisecond):
		case err := <-booted:
			booted <- err
		}
		r.restart()
		err := <-booted
		s, there := r.sandbox("a")
		if err == nil && (!there || !alive(s.Process.Pid)) {
			t.Errorf("round %d: booted, and it is gone: %+v", i, s)
		}
		r.release("a", i+1)
		r.idle()
	}
}

func nowhere(context.Context, string) (int64, error) {
	return 0, errors.New("the store is nowhere")
}
