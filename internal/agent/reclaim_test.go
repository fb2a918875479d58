package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// eater is a sandbox that does as it is told by a pipe in the file system: so many MiB to hold
// from now on, reached within so many milliseconds.
const eater = `my @held; open my $in, '<', $ARGV[0] or die; while (my $line = <$in>) {
my ($to, $ms) = split ' ', $line; my $have = @held; my $steps = int($ms / 10) || 1;
for my $i (1 .. $steps) { my $want = $have + int(($to - $have) * $i / $steps);
splice @held, $want if $want < @held; push @held, 'x' x 1048576 while @held < $want;
select undef, undef, undef, 0.01 if $ms; } }`

// needsCgroups skips a test on a machine where the driver makes none.
func needsCgroups(t *testing.T) {
	t.Helper()
	m, err := hostmem.Discover("/")
	if err != nil {
		t.Skip(err)
	}
	if own := m.Memory(); !own.Mounted() || unix.Access(own.Mount, unix.W_OK) != nil {
		t.Skip("no cgroups can be made here")
	}
}

func paying(budget gate.Bytes, change ...func(*agent.Config)) func(*agent.Config) {
	return func(c *agent.Config) {
		c.Host.Reclaim, c.Budget, c.Host.Headroom = host.ReclaimOn, budget, 128*gate.MiB
		c.SampleLimits, c.SampleSandboxes = 20*time.Millisecond, time.Second
		for _, f := range change {
			f(c)
		}
	}
}

// fed is an eater that runs.
type fed struct {
	r    *rig
	id   string
	pid  int
	pipe *os.File
}

// feed boots an eater with the driver.
func (r *rig) feed(id string, a gate.Ask) *fed {
	r.t.Helper()
	fifo := filepath.Join(r.tmp, id+".in")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		r.t.Fatal(err)
	}
	c := shell("")
	c.Argv, c.Detach = []string{"perl", "-e", eater, fifo}, true
	c.Env = append(c.Env, "MALLOC_MMAP_THRESHOLD_=131072") // so that it gives back what it no longer holds
	if _, err := r.boot.Run(r.t.Context(), r.reserveFor(id, 1, time.Minute, a), c, io.Discard, io.Discard, nil); err != nil {
		r.t.Fatal(err)
	}
	s, _ := r.sandbox(id)
	pipe, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { pipe.Close() })
	return &fed{r: r, id: id, pid: s.Process.Pid, pipe: pipe}
}

// eat has it hold so many MiB, reached within ms.
func (f *fed) eat(mib, ms int) {
	fmt.Fprintf(f.pipe, "%d %d\n", mib, ms)
}

func (f *fed) holds(mib int64) {
	f.r.t.Helper()
	f.r.eventually(fmt.Sprintf("%s to hold %d MiB", f.id, mib), func() bool {
		s, ok := f.r.sandbox(f.id)
		return !ok || s.Usage.Resident >= gate.FromMiB(mib)
	})
}

func sized(mib int64, stateful bool, priority int) gate.Ask {
	a := ask()
	a.Memory, a.Stateful, a.Priority = gate.FromMiB(mib), stateful, priority
	a.Rule.Permille, a.Rule.Floor = 0, 16*gate.MiB
	return a
}

func kernelKills(t *testing.T, m *hostmem.Machine, parent string) int64 {
	t.Helper()
	n, ok, err := m.Kills(parent)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Log("this kernel does not count what it kills")
	}
	return n
}

// Real processes under a limit that the kernel keeps: one that ramps, one that bursts, one that
// leaks, one that idles and one that keeps state, all together more than the limit. The stateful
// one stays, and the kernel's killer has nothing to do (target 10, T100, T103).
func TestLostBetOfRealProcesses(t *testing.T) {
	needsCgroups(t)
	r, state := bursting(t, host.ReclaimOn)
	if end := r.hears(r.burst, host.Ref{ID: "idle", Epoch: 1}); end.How != host.Evicted || !strings.HasPrefix(end.Reason, "killed: the host had ") {
		t.Errorf("the idle one of the lowest priority ended as %s: %s", end.How, end.Reason)
	}
	t.Log(r.line())
	r.eventually("the bet to be paid", func() bool { return !r.view().Lost })
	if !alive(state.pid) {
		t.Error("the one that keeps state is gone")
	}
	if n := r.view().Tally.Killed; n > 0 {
		t.Errorf("the kernel killed %d", n)
	}
	r.checkDeeds()
}

// The same without reclaim: then the kernel kills, so that it is reclaim which saves the others.
func TestLostBetWithoutReclaim(t *testing.T) {
	needsCgroups(t)
	r, _ := bursting(t, host.ReclaimOff)
	r.eventually("the kernel to kill", func() bool { return r.view().Tally.Killed > 0 })
}

// bursts are real processes under a limit, of which one has just begun to burst.
type bursts struct {
	*rig
	burst *agent.Feed
	line  func() string // what was seen of the valve
}

func bursting(t *testing.T, reclaim host.Reclaim) (*bursts, *fed) {
	t.Helper()
	const limit = 832 * gate.MiB
	r := startRig(t, paying(0, func(c *agent.Config) {
		c.Host.Reclaim, c.Host.Headroom, c.Host.Marks.Dwell = reclaim, 256*gate.MiB, 200*time.Millisecond
	}))
	b := &bursts{rig: r, burst: r.Subscribe()}
	state, idle := r.feed("state", sized(160, true, -5)), r.feed("idle", sized(512, false, 0))
	ramp, leak := r.feed("ramp", sized(512, false, 1)), r.feed("leak", sized(512, false, 1))
	burst := r.feed("burst", sized(512, false, 2))
	r.limited(limit)
	state.eat(100, 0)
	idle.eat(120, 0)
	state.holds(90)
	idle.holds(110)
	ramp.eat(120, 2000)
	leak.eat(60, 2000)
	ramp.holds(110)
	leak.holds(50)
	r.eventually("the intake to be open", func() bool { return r.view().Shut == "" })
	b.line = r.watchLine(limit, 128*gate.MiB)
	burst.eat(500, 5000)
	return b, state
}

// watchLine looks at what all sandboxes hold of so much and at the intake, and says how long the
// second moved after the first had passed the mark, or that it moved before.
func (r *rig) watchLine(of, mark gate.Bytes) func() string {
	var line, shut time.Time
	var over sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	over.Go(func() {
		for ctx.Err() == nil && shut.IsZero() {
			all, err := r.cfg.Machine.ResidentCgroup(r.parent)
			if line.IsZero() && err == nil && of-all.Bytes < mark {
				line = time.Now()
			}
			if v, err := r.Verdict(ctx); err == nil && v.Intake == host.IntakePressure {
				shut = time.Now()
			}
			time.Sleep(time.Millisecond)
		}
	})
	r.t.Cleanup(func() { cancel(); over.Wait() })
	return func() string {
		r.t.Helper()
		patience := time.AfterFunc(2*time.Second, cancel) // whoever calls may have seen more than it has
		over.Wait()
		patience.Stop()
		switch late := shut.Sub(line); {
		case shut.IsZero():
			r.t.Error("the intake stayed open")
		case line.IsZero():
			return "intake shut before the line"
		case late > 2*time.Second:
			r.t.Errorf("shut %v after the line", late)
		default:
			return fmt.Sprintf("intake shut %v after the line", late)
		}
		return ""
	}
}

// checkDeeds holds what the host tells of its deeds against what became of the sandboxes.
func (r *rig) checkDeeds() {
	r.t.Helper()
	v := r.view()
	gone := 0
	for _, e := range v.Evictions {
		s, there := r.sandbox(e.ID)
		switch {
		case e.By == host.Ordered && (!there || s.Evicting == ""):
			r.t.Errorf("%s was told to go, and is %+v", e.ID, s)
		case e.By != host.Ordered && e.By != host.WouldGo:
			gone++
			if there || e.Gone < e.At || e.Resident <= 0 || e.Deficit <= 0 || e.Free >= e.Headroom {
				r.t.Errorf("a deed says %+v, and the sandbox is there: %v", e, there)
			}
		}
	}
	audited := 0
	for _, d := range r.holding().Deeds {
		if strings.HasPrefix(d.What, "evict ") && d.By == "host h1" {
			audited++
		}
	}
	if gone == 0 || audited != gone {
		r.t.Errorf("%d had to go, %d are told to the audit: %+v", gone, audited, v.Evictions)
	}
}

// In a dry run the same is told, and nobody goes.
func TestDryRunEndsNobody(t *testing.T) {
	needsCgroups(t)
	r := startRig(t, paying(512*gate.MiB, func(c *agent.Config) { c.Host.Reclaim = host.ReclaimDryRun }))
	a := r.feed("a", sized(512, false, 0))
	watch := r.watchLine(r.cfg.Budget, 64*gate.MiB)
	a.eat(490, 0)
	r.eventually("a dry run", func() bool { return len(r.view().Evictions) > 0 })
	if e := r.view().Evictions[0]; e.By != host.WouldGo || e.ID != "a" || !alive(a.pid) {
		t.Errorf("%+v, alive: %v", e, alive(a.pid))
	}
	t.Log(watch())
	if log := r.log.String(); !strings.Contains(log, "a sandbox has to go") || !strings.Contains(log, "by=dry-run") {
		t.Error("nobody was told")
	}
}

// With reclaim off the agent says so loudly, and the kernel is told the order all the same: the
// lowest priority first, what keeps state as if it were none of ours.
func TestKernelIsToldTheOrder(t *testing.T) {
	needsCgroups(t)
	r := startRig(t, paying(0, func(c *agent.Config) { c.Host.Reclaim = host.ReclaimOff }))
	state := r.feed("state", sized(64, true, -9))
	high := r.feed("high", sized(64, false, 9))
	low := r.feed("low", sized(64, false, 0))
	r.eventually("an order", func() bool { return oomScore(t, low.pid) == 900 && oomScore(t, high.pid) == 300 })
	if n := oomScore(t, state.pid); n != 0 {
		t.Errorf("the stateful one has %d", n)
	}
	if !strings.Contains(r.log.String(), "reclaim is off on a host that promises more than it has") {
		t.Error("it was not said that reclaim is off")
	}
	third := r.feed("third", sized(64, false, 4))
	r.eventually("a place between", func() bool { return oomScore(t, third.pid) == 600 })
}

func oomScore(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// hookScript writes what a hook is told into a file, and then does what the test wants of it.
func (r *rig) hookScript(name, then string) (path, said string) {
	r.t.Helper()
	path, said = filepath.Join(r.tmp, name), filepath.Join(r.tmp, name+".said")
	text := "#!/bin/sh\necho \"$0 $*\" >>" + said + "\nenv | sort >>" + said + "\n" + then + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
	return path, said
}

// The operator's own hibernation comes before force, and is what the deed says. It has no shell
// and none of the agent's environment; both hooks of the intake are told, one after the other.
func TestHibernateHook(t *testing.T) {
	needsCgroups(t)
	var mu sync.Mutex
	told := map[string]map[string]any{}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var n map[string]any
		if q.Method != http.MethodPost || json.NewDecoder(q.Body).Decode(&n) != nil {
			t.Errorf("%s without JSON", q.Method)
		}
		mu.Lock()
		defer mu.Unlock()
		told[fmt.Sprint(n["event"])] = n
	}))
	defer hook.Close()
	t.Setenv("SECRET_OF_THE_AGENT", "1")
	r := newRig(t, paying(512*gate.MiB))
	path, said := r.hookScript("hibernate", "kill -9 $PLIMSOLL_PID")
	r.cfg.Hooks = agent.Hooks{
		Hibernate:  agent.Hook{Exec: []string{path, "a b", "$HOME"}, Webhook: hook.URL, Within: 5 * time.Second},
		IntakeShut: agent.Hook{Webhook: hook.URL, Within: 5 * time.Second}, IntakeOpened: agent.Hook{Webhook: hook.URL, Within: 5 * time.Second},
	}
	r.cfg.Host.Marks.Dwell = 200 * time.Millisecond
	r.start()
	feed := r.Subscribe()
	a := r.feed("a", sized(512, false, 0))
	a.eat(490, 0)
	if end := r.hears(feed, host.Ref{ID: "a", Epoch: 1}); end.How != host.Evicted || !strings.HasPrefix(end.Reason, "hibernated: ") {
		t.Errorf("%s: %s", end.How, end.Reason)
	}
	text, _ := os.ReadFile(said)
	for _, want := range []string{path + " a b $HOME\n", "PLIMSOLL_SANDBOX=a\n", "PLIMSOLL_EVENT=hibernate\n", "PLIMSOLL_KEY=k-a\n", fmt.Sprintf("PLIMSOLL_PID=%d\n", a.pid)} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the hook was not told %q, but\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "SECRET_OF_THE_AGENT") {
		t.Error("the hook has the agent's environment")
	}
	r.eventually("all hooks to be told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return told["hibernate"] != nil && told["intake_shut"] != nil && told["intake_opened"] != nil
	})
	r.checkDeeds()
}

// A hook that fails, one that hangs and one that only says that it did are followed by the next
// one, and by force where none is left, each within its time. What is told is what ended it.
func TestHooksThatDoNothing(t *testing.T) {
	needsCgroups(t)
	for name, c := range map[string]struct{ hibernate, stop, by string }{
		"fails":                        {"exit 3", "", "killed after its hook: "},
		"hangs":                        {"sleep 1000 & sleep 1000", "", "killed after its hook: "},
		"says that it did it":          {"exit 0", "", "killed after its hook: "},
		"says it, and the next did it": {"exit 0", "kill -9 $PLIMSOLL_PID", "stopped: "},
		"both say it":                  {"exit 0", "exit 0", "killed after its hook: "},
		"did it, and fails":            {"kill -9 $PLIMSOLL_PID; sleep 2; exit 3", "", "hibernated: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, paying(512*gate.MiB))
			path, _ := r.hookScript("hibernate", c.hibernate)
			within := 10 * time.Second
			if name == "hangs" {
				within = 300 * time.Millisecond
			}
			r.cfg.Hooks.Hibernate = agent.Hook{Exec: []string{path}, Within: within}
			stop, stopped := r.hookScript("stop", c.stop)
			if c.stop != "" {
				r.cfg.Hooks.Stop = agent.Hook{Exec: []string{stop}, Within: within}
			}
			r.start()
			feed := r.Subscribe()
			a := r.feed("a", sized(512, false, 0))
			a.eat(490, 0)
			if end := r.hears(feed, host.Ref{ID: "a", Epoch: 1}); end.How != host.Evicted || !strings.HasPrefix(end.Reason, c.by) {
				t.Errorf("%s: %s", end.How, end.Reason)
			}
			if _, err := os.Stat(stopped); (err == nil) != (c.stop != "") {
				t.Errorf("the next hook was called: %v", err == nil)
			}
			if e := r.view().Evictions[0]; string(e.By)+": " != c.by {
				t.Errorf("the host shows that it was %s", e.By)
			}
			r.checkDeeds()
		})
	}
}

// What would be found only when the bet is lost is said at the start, with what to do.
func TestHooksAreCheckedAtTheStart(t *testing.T) {
	r := newRig(t, func(c *agent.Config) { c.Host.Reclaim = host.ReclaimOff })
	fine, _ := r.hookScript("fine", "exit 0")
	plain := filepath.Join(r.tmp, "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.cfg.Hooks = agent.Hooks{
		Hibernate: agent.Hook{Exec: []string{filepath.Join(r.tmp, "none"), "-x"}, Within: time.Second}, Stop: agent.Hook{Exec: []string{plain}, Within: time.Second},
		IntakeShut: agent.Hook{Exec: []string{fine}, Within: time.Second}, IntakeOpened: agent.Hook{Exec: []string{r.tmp}, Within: time.Second},
	}
	r.start()
	r.view()
	log := r.log.String()
	for hook, why := range map[string]string{"hibernate": "no such file or directory", "stop": "permission denied", "intake_opened": "is a directory"} {
		found := false
		for line := range strings.Lines(log) {
			found = found || strings.Contains(line, "level=ERROR") && strings.Contains(line, "install it there, make it executable") &&
				strings.Contains(line, "hook=host.hooks."+hook+" ") && strings.Contains(line, why)
		}
		if !found {
			t.Errorf("of %s it is not said: %s", hook, why)
		}
	}
	if strings.Contains(log, "intake_shut") {
		t.Error("one that can be run is told of")
	}
	if !strings.Contains(log, "are never called unless reclaim is on: set host.reclaim to on, or leave them out") {
		t.Error("nobody was told that hooks are set for nothing")
	}
}

// A failure ends with what was said, or with itself.
func TestWhatAHookSays(t *testing.T) {
	for said, want := range map[string]string{"": "run: exit status 3", " \n": "run: exit status 3", "no disk\n": "run: exit status 3: no disk"} {
		if got := agent.WithWords(errors.New("run: exit status 3"), said).Error(); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

// A sandbox that was gone when its hook failed is nobody's to stop: its pid may be another's.
func TestNoHookForTheGone(t *testing.T) {
	needsCgroups(t)
	r := newRig(t, paying(512*gate.MiB))
	path, _ := r.hookScript("hibernate", "kill -9 $PLIMSOLL_PID; sleep 1; exit 3")
	stop, stopped := r.hookScript("stop", "exit 0")
	r.cfg.Hooks = agent.Hooks{
		Hibernate: agent.Hook{Exec: []string{path}, Within: 5 * time.Second}, Stop: agent.Hook{Exec: []string{stop}, Within: 5 * time.Second},
	}
	r.start()
	a := r.feed("a", sized(512, false, 0))
	a.eat(490, 0)
	r.eventually("the hook to fail", func() bool { return strings.Contains(r.log.String(), "a hook failed for a sandbox that had to go") })
	r.eventually("its end", func() bool { _, there := r.sandbox("a"); return !there })
	r.restart(func() { // whatever an agent does has ended when it has
		if _, err := os.Stat(stopped); err == nil {
			t.Error("the next hook was called")
		}
	})
}

// toldToGo is a host with one sandbox, which has to go, and whose hook does not end.
func toldToGo(t *testing.T) (*rig, *fed) {
	t.Helper()
	needsCgroups(t)
	r := newRig(t, paying(512*gate.MiB))
	path, said := r.hookScript("hibernate", "sleep 1000")
	r.cfg.Hooks.Hibernate = agent.Hook{Exec: []string{path}, Within: 20 * time.Second}
	r.start()
	a := r.feed("a", sized(512, false, 0))
	a.eat(490, 0)
	r.eventually("the hook to be called", func() bool { _, err := os.Stat(said); return err == nil })
	return r, a
}

// What was told to go and ended while no agent was there: by what is not known, and is not said.
func TestEvictionThatNobodySaw(t *testing.T) {
	r, a := toldToGo(t)
	r.restart(func() {
		unix.Kill(a.pid, unix.SIGKILL)
		unix.Wait4(a.pid, nil, 0, nil)
	})
	r.told("a", host.Evicted, "ended unseen: the host had ")
}

// A sandbox that somebody else booted is killed by its pid, whose start time is checked, with
// all that it started.
func TestForeignSandboxHasToGo(t *testing.T) {
	r := startRig(t, paying(512*gate.MiB, func(c *agent.Config) { c.SampleSandboxes = 100 * time.Millisecond }))
	feed := r.Subscribe()
	fifo := filepath.Join(r.tmp, "in")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	s := r.redeem(r.reserveFor("a", 1, time.Minute, sized(512, false, 0)))
	p := startChild(t, "sh", "-c", `perl -e "$0" "$1" & wait`, eater, fifo)
	if err := s.Track(t.Context(), p.pid()); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(pipe, "490 0")
	if end := r.hears(feed, host.Ref{ID: "a", Epoch: 1}); end.How != host.Evicted {
		t.Errorf("%s: %s", end.How, end.Reason)
	}
	r.eventually("its child to be gone", func() bool {
		all, err := r.cfg.Machine.Processes()
		return err == nil && len(all.Tree(p.pid())) <= 1
	})
}

// What an agent was about to end when it was killed, the next one ends.
func TestEvictionGoesOnAfterARestart(t *testing.T) {
	r, a := toldToGo(t)
	r.restart(func() { r.cfg.Hooks = agent.Hooks{} })
	r.eventually("its end", func() bool { return !alive(a.pid) })
	r.told("a", host.Evicted, "killed: the host had ")
}

// T102: what the kernel killed at its own limit has exited, and may start again where it was;
// what it killed for want of the host's memory has not.
func TestWhoseMemoryRanOut(t *testing.T) {
	r := startRig(t)
	for _, c := range []struct {
		what string
		exit driver.Exit
		host bool
	}{
		{"the host's", driver.Exit{Signal: syscall.SIGKILL, OOM: true}, true},
		{"the host's, of one that an earlier agent booted", driver.Exit{Unknown: true, OOM: true}, true},
		{"its own", driver.Exit{Signal: syscall.SIGKILL, OOM: true, OwnLimit: true}, false},
		{"killed by somebody", driver.Exit{Signal: syscall.SIGKILL}, false},
		{"lost a child to the kernel, and ended by itself", driver.Exit{OOM: true}, false},
	} {
		if got := r.HostRanOut(c.exit); got != c.host {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// A deed that was under way is not what ended a sandbox that the kernel killed meanwhile; what
// the agent had killed it had.
func TestTheKernelIsQuickerThanAHook(t *testing.T) {
	for _, c := range []struct {
		by     host.Means
		ranOut bool
		want   host.Means
	}{
		{host.Hibernated, true, host.ByKernel},
		{host.StoppedBy, true, host.ByKernel},
		{host.Hibernated, false, host.Hibernated},
		{host.Killed, true, host.Killed},
		{host.KilledAfter, true, host.KilledAfter},
		{"", true, ""},
	} {
		if got := agent.EndedBy(c.by, c.ranOut); got != c.want {
			t.Errorf("%q, and the kernel killed: %v: %q", c.by, c.ranOut, got)
		}
	}
}

func TestScoresFollowTheOrder(t *testing.T) {
	for _, of := range []int{1, 2, 3, 100, 1000} {
		last := 1000
		for place := range of {
			n := agent.ScoreAt(place, of)
			if n > last || n < 300 || n > 900 {
				t.Fatalf("place %d of %d has %d, the one before it %d", place, of, n, last)
			}
			last = n
		}
		if agent.ScoreAt(0, of) != 900 || (of > 1 && agent.ScoreAt(of-1, of) != 300) {
			t.Errorf("of %d: from %d to %d", of, agent.ScoreAt(0, of), agent.ScoreAt(of-1, of))
		}
	}
}
