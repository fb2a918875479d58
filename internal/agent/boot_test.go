package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
)

// A foreign orchestrator boots by hand: Redeem, Track, Done.
func TestBootByHand(t *testing.T) {
	r := startRig(t)
	feed := r.Subscribe()
	s := r.redeem(r.reserve("a", 7))
	if s.ID != "a" || s.Epoch != 7 || s.MemoryMB != 128 {
		t.Errorf("start %+v", s)
	}
	if v := r.view(); v.Reservations != 0 || len(v.Sandboxes) != 1 || v.Starting != 1 {
		t.Errorf("after Redeem %d reserved, %d charged, %d starting", v.Reservations, len(v.Sandboxes), v.Starting)
	}
	c := startChild(t, "sleep", "1000")
	if err := s.Track(t.Context(), c.pid()); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.sandbox("a"); got.Phase != host.Running || got.Process.Pid != c.pid() {
		t.Errorf("after Track %+v", got)
	}
	// Done while it runs is refused: its memory is in use, whatever anybody says.
	refused(t, s.Done(t.Context(), "I think it is over"), api.InvalidRequest, "still runs")
	c.Process.Kill()
	<-c.over
	if err := s.Done(t.Context(), "over now"); err != nil {
		// The agent may have seen the end first, and told it; Done stays a yes.
		t.Error(err)
	}
	if e := r.hears(feed, host.Ref{ID: "a", Epoch: 7}); e.How != host.Exited {
		t.Errorf("end %+v", e)
	}
	r.idle()
}

// T111: a unit that dies outside of anybody's control is off the ledger at once.
func TestTheAgentSeesTheEndItself(t *testing.T) {
	r := startRig(t)
	feed := r.Subscribe()
	s := r.redeem(r.reserve("a", 1))
	c := startChild(t, "sleep", "1000")
	if err := s.Track(t.Context(), c.pid()); err != nil {
		t.Fatal(err)
	}
	s.Close() // from Track on nothing depends on the connection
	c.Process.Kill()
	if e := r.hears(feed, host.Ref{ID: "a", Epoch: 1}); e.How != host.Exited || e.Reason == "" {
		t.Errorf("end %+v", e) // how it ended is seen only while its parent has not looked yet
	}
	r.idle()
}

// T28, T35, T81: whatever way a boot fails, everything comes back.
func TestAFailedBootGivesEverythingBack(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, r *rig, text string){
		"its booter closes the connection": func(t *testing.T, r *rig, text string) { r.redeem(text).Close() },
		"its booter says Done": func(t *testing.T, r *rig, text string) {
			if err := r.redeem(text).Done(t.Context(), "no image"); err != nil {
				t.Error(err)
			}
		},
		"its booter is killed": func(t *testing.T, r *rig, text string) {
			c := booter(t, booterOrder{Socket: r.boot.Socket, Ticket: text}, 0)
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "redeemed\n" {
				t.Errorf("the booter says %q (%v)", line, err)
			}
			if _, ok := r.sandbox("a"); !ok {
				t.Error("redeemed and not charged")
			}
			c.Process.Kill()
			c.Wait()
		},
		"its booter speaks nonsense": func(t *testing.T, r *rig, text string) {
			w := dial(t, r)
			w.say(t, boot.Request{Op: boot.OpRedeem, Ticket: text})
			w.expect(t, boot.EvStart)
			fmt.Fprintln(w.Conn, "{nonsense")
			w.refused(t, api.InvalidRequest)
		},
		"its command is not there": func(t *testing.T, r *rig, text string) {
			_, _, _, err := r.run(text, boot.Command{Argv: []string{"/no/such/command"}})
			refused(t, err, api.InvalidRequest, "/no/such/command")
			// Everything is free when the refusal is read, not some time later.
			if v := r.view(); len(v.Sandboxes) != 0 {
				t.Errorf("still charged: %+v", v.Sandboxes)
			}
		},
		"its command cannot be executed": func(t *testing.T, r *rig, text string) {
			file := filepath.Join(r.tmp, "text")
			os.WriteFile(file, []byte("no program\n"), 0o755)
			_, _, _, err := r.run(text, boot.Command{Argv: []string{file}})
			refused(t, err, api.InvalidRequest, "exec format error")
			if v := r.view(); len(v.Sandboxes) != 0 {
				t.Errorf("still charged: %+v", v.Sandboxes)
			}
		},
		"its directory is not there": func(t *testing.T, r *rig, text string) {
			_, _, _, err := r.run(text, boot.Command{Argv: []string{"true"}, Dir: "/no/such/dir"})
			refused(t, err, api.InvalidRequest, "/no/such/dir")
		},
		"there is no command": func(t *testing.T, r *rig, text string) {
			_, _, _, err := r.run(text, boot.Command{})
			refused(t, err, api.InvalidRequest, "command")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t)
			feed := r.Subscribe()
			for i := range int64(3) {
				fail(t, r, r.reserve("a", i+1))
				r.hears(feed, host.Ref{ID: "a", Epoch: i + 1})
			}
			r.idle()
		})
	}
}

// The waiting line: one start at a time, given back by Track.
func TestTheLineOfStarts(t *testing.T) {
	r := startRig(t, func(c *agent.Config) { c.Host.MaxStarts = 1; c.Host.MaxWaitingStarts = 2 })
	first := r.redeem(r.reserve("a", 1))
	second := inLine(t, r, r.reserve("b", 1))
	third := inLine(t, r, r.reserve("c", 1))
	if v := r.view(); v.Starting != 1 || v.InLine != 2 {
		t.Fatalf("%d starting, %d in line", v.Starting, v.InLine)
	}
	// One that hangs up in line leaves nothing behind.
	third.Close()
	r.eventually("c to be freed", func() bool { _, there := r.sandbox("c"); return !there })
	c := startChild(t, "sleep", "1000")
	if err := first.Track(t.Context(), c.pid()); err != nil {
		t.Fatal(err)
	}
	second.expect(t, boot.EvStart)
	if v := r.view(); v.Starting != 1 || v.InLine != 0 {
		t.Errorf("%d starting, %d in line", v.Starting, v.InLine)
	}
	second.Close()
	c.Process.Kill()
	r.idle()
}

// A release finds one that waits in line, and tells it so.
func TestReleasedWhileInLine(t *testing.T) {
	r := startRig(t, func(c *agent.Config) { c.Host.MaxStarts = 1 })
	first := r.redeem(r.reserve("a", 1))
	second := inLine(t, r, r.reserve("b", 1))
	r.release("b", 1)
	second.refused(t, api.TicketRejected)
	first.Close()
	r.idle()
}

// What may not be said in line ends the wait.
func TestNothingMayBeSaidInLine(t *testing.T) {
	r := startRig(t, func(c *agent.Config) { c.Host.MaxStarts = 1 })
	first := r.redeem(r.reserve("a", 1))
	second := inLine(t, r, r.reserve("b", 1))
	second.say(t, boot.Request{Op: boot.OpTrack, Pid: os.Getpid()})
	second.refused(t, api.InvalidRequest)
	first.Close()
	r.idle()
}

// A full line refuses before anything is closed, so the ticket stays good.
func TestAFullLine(t *testing.T) {
	r := startRig(t, func(c *agent.Config) { c.Host.MaxStarts = 2; c.Host.MaxWaitingStarts = 1 })
	first, _ := r.redeem(r.reserve("a", 1)), r.redeem(r.reserve("b", 1))
	third := inLine(t, r, r.reserve("c", 1))
	// A fourth is not even promised: the dimension of waiting starts counts reservations too.
	if a, err := r.tryReserve("d", 1, time.Minute, ask()); err != nil || a.Denial != host.StartsFull {
		t.Errorf("the fourth reserve: %v %v", a.Denial, err)
	}
	first.Close()
	third.expect(t, boot.EvStart)
}

// A release while it runs: the booter is told, and the process ends by TERM, then KILL.
func TestReleaseStopsWhatIsTracked(t *testing.T) {
	for name, script := range map[string]string{
		"by TERM": `trap "exit 0" TERM; echo ready; while :; do sleep 0.01; done`,
		"by KILL": `trap "" TERM; echo ready; while :; do sleep 0.01; done`,
	} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t)
			feed := r.Subscribe()
			s := r.redeem(r.reserve("a", 1))
			c := startChild(t, "sh", "-c", script)
			if err := s.Track(t.Context(), c.pid()); err != nil {
				t.Fatal(err)
			}
			if a := r.release("a", 1); !a.Running {
				t.Errorf("answer %+v", a)
			}
			r.release("a", 1) // twice is once
			<-s.Stopped()
			<-c.over
			r.hears(feed, host.Ref{ID: "a", Epoch: 1})
			r.idle()
		})
	}
}

// A release between Redeem and Track: the booter is told, and were it to track all the same
// its process would be stopped.
func TestReleaseBeforeTrack(t *testing.T) {
	r := startRig(t)
	s := r.redeem(r.reserve("a", 1))
	r.release("a", 1)
	<-s.Stopped()
	c := startChild(t, "sleep", "1000")
	if err := s.Track(t.Context(), c.pid()); err != nil {
		t.Fatal(err)
	}
	<-c.over
	r.idle()
}

// A sandbox in more than one process tree is measured by its cgroup, ends with its main
// process, and the cgroup stays its maker's.
func TestTrackCgroup(t *testing.T) {
	r := startRig(t)
	memory := r.cfg.Machine.Memory()
	if !memory.Mounted() {
		t.Skip("no memory controller")
	}
	cgroup := fmt.Sprintf("/plimsoll-foreign-%d", os.Getpid())
	if err := os.Mkdir(memory.Dir(cgroup), 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { eventually(t, "the cgroup to go", func() bool { return os.Remove(memory.Dir(cgroup)) == nil }) })
	s := r.redeem(r.reserve("a", 1))
	c := startChild(t, "sh", "-c", "read line; exec python3 -c 'x = bytearray(40 << 20); import time; time.sleep(1000)' || exec sleep 1000")
	if err := os.WriteFile(filepath.Join(memory.Dir(cgroup), "cgroup.procs"), []byte(strconv.Itoa(c.pid())), 0o644); err != nil {
		t.Skip(err)
	}
	refused(t, s.TrackCgroup(t.Context(), c.pid(), "/no/such/cgroup"), api.InvalidRequest, "cannot be measured")
	refused(t, s.TrackCgroup(t.Context(), c.pid(), r.cfg.Driver.CgroupOf("a")), api.InvalidRequest, "use another")
	if err := s.TrackCgroup(t.Context(), c.pid(), cgroup); err != nil {
		t.Fatal(err)
	}
	r.eventually("the cgroup to be measured", func() bool { got, _ := r.sandbox("a"); return got.Usage.Resident > 0 })
	// A restarted agent goes on measuring it, and does not take it for one of its own.
	r.restart()
	r.eventually("the cgroup to be measured again", func() bool { got, _ := r.sandbox("a"); return got.Usage.Resident > 0 })
	c.Process.Kill()
	r.idle()
}

// What can be tracked is one's own process, that is there.
func TestWhatCannotBeTracked(t *testing.T) {
	r := startRig(t)
	s := r.redeem(r.reserve("a", 1))
	gone := startChild(t, "true")
	<-gone.over
	refused(t, s.Track(t.Context(), gone.pid()), api.InvalidRequest, "no such process")
	refused(t, s.Track(t.Context(), 0), api.InvalidRequest, "no such process")
	refused(t, s.Track(t.Context(), -1), api.InvalidRequest, "no such process")
	refused(t, s.Track(t.Context(), 1), api.InvalidRequest, "process 1 is no sandbox")
	c := startChild(t, "sleep", "1000")
	if err := s.Track(t.Context(), c.pid()); err != nil {
		t.Fatalf("after all the refusals: %v", err)
	}
	refused(t, s.Track(t.Context(), c.pid()), api.InvalidRequest, "tracked already")
	other := r.redeem(r.reserve("b", 1))
	refused(t, other.Track(t.Context(), c.pid()), api.InvalidRequest, "tracked already, as sandbox a")
	refused(t, other.Track(t.Context(), os.Getpid()), api.InvalidRequest, "the agent itself")
	other.Close()
	c.Process.Kill()
	r.idle()
}

// Somebody else's process is not a booter's to give: it would be killed on its word.
func TestTrackSomebodyElsesProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be two users")
	}
	r := startRig(t)
	mine := startChild(t, "sleep", "1000")
	out, err := booter(t, booterOrder{Socket: r.boot.Socket, Ticket: r.reserve("a", 1), Track: mine.pid()}, 65534).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "belongs to uid 0") {
		t.Errorf("%s %v", out, err)
	}
	r.idle()
	if !alive(mine.pid()) {
		t.Error("it was killed")
	}
	theirs := booter(t, booterOrder{Socket: r.boot.Socket, Ticket: r.reserve("b", 1), Track: -1}, 65534)
	pipe, err := theirs.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(pipe).ReadString('\n'); line != "<nil>\n" {
		t.Errorf("its own process: %q %v", line, err)
	}
	theirs.Process.Kill()
	theirs.Wait()
	r.idle()
}

// Of two connections with one ticket exactly one wins, however they race.
func TestReplayedAtOnce(t *testing.T) {
	r := startRig(t)
	for i := range int64(20) {
		text := r.reserve("a", i+1)
		var mu sync.Mutex
		var won []*boot.Start
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				s, err := r.boot.Redeem(t.Context(), text)
				if err != nil {
					refused(t, err, api.TicketRejected, "replayed")
					return
				}
				mu.Lock()
				defer mu.Unlock()
				won = append(won, s)
			})
		}
		all.Wait()
		if len(won) != 1 {
			t.Fatalf("round %d: %d redeemed one ticket", i, len(won))
		}
		won[0].Close()
		r.idle()
	}
}

// T35: many boots cancelled at any moment of theirs, and the host is as it was.
func TestCancelledAtAnyMoment(t *testing.T) {
	r := startRig(t, func(c *agent.Config) { c.Host.MaxStarts = 2 })
	var all sync.WaitGroup
	for i := range 60 {
		text := r.reserve(fmt.Sprint("s", i), 1)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*2*time.Millisecond)
			defer cancel()
			s, err := r.boot.Redeem(ctx, text)
			if err == nil {
				<-ctx.Done()
				s.Close()
			} else if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// What was not even redeemed is open still; the callers give it back.
	for i := range 60 {
		r.release(fmt.Sprint("s", i), 1)
	}
	r.idle()
}

// Two in line and a stop: whoever waits gets an answer, and Serve ends.
func TestStopWhileSessionsWait(t *testing.T) {
	r := startRig(t, func(c *agent.Config) { c.Host.MaxStarts = 1 })
	first := r.redeem(r.reserve("a", 1))
	second := inLine(t, r, r.reserve("b", 1))
	c := startChild(t, "sleep", "1000")
	s := r.reserve("c", 1)
	r.restart()
	second.closed(t)
	if err := first.Track(t.Context(), c.pid()); !errors.Is(err, boot.ErrConnectionLost) {
		t.Errorf("track after the agent went: %v", err)
	}
	// A redeemed ticket stays used; one that was not is good still.
	_, err := r.boot.Redeem(t.Context(), r.mint("a", 1, ask().Memory))
	refused(t, err, api.TicketRejected, "")
	r.redeem(s).Close()
	r.idle()
}

// Nothing of the agent answers after it has stopped, or blocks.
func TestAfterTheEnd(t *testing.T) {
	r := startRig(t)
	feed := r.Subscribe()
	r.halt()
	if _, err := r.Do(t.Context(), host.Tick{}); !errors.Is(err, agent.ErrStopped) {
		t.Errorf("Do: %v", err)
	}
	if _, err := r.View(t.Context()); !errors.Is(err, agent.ErrStopped) {
		t.Errorf("View: %v", err)
	}
	if _, err := r.Holding(t.Context()); !errors.Is(err, agent.ErrStopped) {
		t.Errorf("Holding: %v", err)
	}
	for {
		if _, err := feed.Next(t.Context()); err != nil {
			if !errors.Is(err, agent.ErrStopped) {
				t.Errorf("Next: %v", err)
			}
			break
		}
	}
	if _, err := r.Subscribe().Next(t.Context()); !errors.Is(err, agent.ErrStopped) {
		t.Errorf("Next of a late feed: %v", err)
	}
	if _, err := r.boot.Redeem(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "is plimsoll up running") {
		t.Errorf("Redeem: %v", err)
	}
}

// The kernel's file table is not filled by sandboxes that come and go.
func TestNoDescriptorIsLeft(t *testing.T) {
	r := startRig(t)
	before := 0
	for i := range int64(8) {
		s := r.redeem(r.reserve("a", i+1))
		c := startChild(t, "sleep", "1000")
		if err := s.Track(t.Context(), c.pid()); err != nil {
			t.Fatal(err)
		}
		s.Close()
		c.Process.Kill()
		<-c.over
		c.Process.Release() // where the agent reaped it first, Wait has not closed its own
		r.run(r.reserve("b", i+1), shell("echo x"))
		r.idle()
		if i == 2 { // pools and pollers are warm by then
			before = descriptors(t)
		}
	}
	eventually(t, "every descriptor to be closed", func() bool { return descriptors(t) <= before })
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// A stateful sandbox is charged what it is configured with, and no sooner a victim than
// what else runs here; a stateless one is, and neither inherits the agent's own score.
func TestTheOrderOfVictims(t *testing.T) {
	r := startRig(t)
	stateful := ask()
	stateful.Stateful = true
	out, _, _, err := r.run(r.reserveFor("db", 1, time.Minute, stateful), shell("cat /proc/self/oom_score_adj"))
	if err != nil || out != "0\n" {
		t.Errorf("stateful: %q %v", out, err)
	}
	out, _, _, err = r.run(r.reserve("vm", 1), shell("cat /proc/self/oom_score_adj"))
	if err != nil || out != "500\n" && out != "900\n" { // before and after the first look at the order
		t.Errorf("stateless: %q %v", out, err)
	}
	if want := gate.Need(stateful, gate.WorkingSet); want != 128*gate.MiB {
		t.Errorf("need %v", want)
	}
}

func (r *rig) release(id string, epoch int64) host.Answer {
	r.t.Helper()
	a, err := r.Do(r.t.Context(), host.Release{ID: id, Gen: epoch})
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// T28, T43: many boots at once, of which some fail, some are released and some end, with few
// starts between them; each gets its own end, and the host is idle again.
func TestManyBootsAtOnce(t *testing.T) {
	r := startRig(t, func(c *agent.Config) { c.Host.MaxStarts = 3; c.Host.MaxWaitingStarts = 100; c.Budget = 0 })
	var all sync.WaitGroup
	for i := range 40 {
		id := fmt.Sprint("s", i)
		text := r.reserve(id, 1)
		all.Go(func() {
			switch i % 4 {
			case 0, 1:
				if _, _, exit, err := r.run(text, shell(fmt.Sprint("exit ", i))); err != nil || exit.Status != i {
					t.Errorf("%d: %+v %v", i, exit, err)
				}
			case 2:
				_, _, _, err := r.run(text, boot.Command{Argv: []string{"/no/such"}})
				refused(t, err, api.InvalidRequest, "/no/such")
			case 3:
				go r.Do(context.Background(), host.Release{ID: id, Gen: 1})
				_, _, exit, err := r.run(text, shell("exec sleep 1000"))
				if err == nil && exit.Signal == "" || err != nil && !errors.Is(err, api.TicketRejected) {
					t.Errorf("%d: %+v %v", i, exit, err)
				}
			}
		})
	}
	all.Wait()
	r.idle()
}
