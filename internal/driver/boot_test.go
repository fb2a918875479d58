package driver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/driver"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}

func TestExitStatus(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		for script, want := range map[string]driver.Exit{
			"exit 0":        {},
			"exit 7":        {Code: 7},
			"kill -KILL $$": {Code: 137, Signal: syscall.SIGKILL},
		} {
			if got := r.run(t, r.shell("s", script)).Wait(); got != want {
				t.Errorf("%s: %v, want %v", script, got, want)
			}
		}
	})
}

func TestNothingOfTheAgentsIsInherited(t *testing.T) {
	t.Setenv("AGENT_SECRET", "x")
	everywhere(t, func(t *testing.T, r *rig) {
		s := r.shell("s", "env; echo in:$(readlink /proc/$$/fd/0); echo sid:$(cut -d' ' -f6 /proc/$$/stat); echo dir:$PWD")
		s.Env = append(s.Env, "A=1", "BYTES=\xff\xfe")
		p := r.run(t, s)
		p.Wait()
		out := r.stdout(t, "s")
		if strings.Contains(out, "AGENT_SECRET") {
			t.Error("the agent's environment leaked")
		}
		for _, want := range []string{
			"A=1\n", "BYTES=\xff\xfe\n", "in:/dev/null\n",
			fmt.Sprintf("sid:%d\n", p.Pid()), "dir:" + r.tmp + "\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in:\n%s", want, out)
			}
		}
	})
}

func TestNoFileOfTheAgentsIsInherited(t *testing.T) {
	r := withoutCgroups(t)
	leak, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // not closed on exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	r.run(t, r.shell("s", "exec ls /proc/self/fd")).Wait()
	if out := r.stdout(t, "s"); out != "0\n1\n2\n3\n" { // 3 is the directory that ls reads
		t.Errorf("open files:\n%s", out)
	}
}

func TestOutputIsAppendedToTwoLogs(t *testing.T) {
	r := withoutCgroups(t)
	for range 2 {
		r.run(t, r.shell("s", "echo out; echo err >&2")).Wait()
	}
	_, errName := r.Logs("s")
	errText, _ := os.ReadFile(errName)
	if r.stdout(t, "s") != "out\nout\n" || string(errText) != "err\nerr\n" {
		t.Errorf("stdout %q, stderr %q", r.stdout(t, "s"), errText)
	}
	if info, err := os.Stat(errName); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("log mode %v, %v", info.Mode(), err)
	}
}

func TestHeldRunsNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		p := r.prepare(t, r.shell("s", "touch ran"))
		if at, err := r.machine.StartTime(p.Pid()); err != nil || at != p.StartTime() {
			t.Errorf("started at %d, %v; said %d", at, err, p.StartTime())
		}
		p.Abort()
		p.Abort()
		p.Wait()
		if r.has("ran") {
			t.Error("it ran without having been released")
		}
		if err := p.Go(); err == nil {
			t.Error("an aborted sandbox was released")
		}
		r.run(t, r.shell("s", "touch ran")).Wait()
		if !r.has("ran") {
			t.Error("the id could not be used again")
		}
	})
}

func TestHelperKilledWhileHeld(t *testing.T) {
	r := withoutCgroups(t)
	p := r.prepare(t, r.shell("s", "touch ran"))
	syscall.Kill(p.Pid(), syscall.SIGKILL)
	if exit := p.Wait(); exit.Signal != syscall.SIGKILL {
		t.Errorf("got %v", exit)
	}
	if err := p.Go(); err == nil {
		t.Error("a dead helper was released without an error")
	}
}

func TestAgentDeathBeforeGo(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		held, kill := startAgent(t, agentOrder{
			Root: r.root, Parent: r.config.Parent, Dir: r.config.Dir,
			Spec: r.shell("s", "touch ran"),
		})
		kill()
		eventually(t, "the helper's end", func() bool { return r.gone(held.PID) })
		if r.has("ran") {
			t.Error("a sandbox booted that nobody tracks")
		}
		strays, err := r.Sweep(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range strays {
			if s.ID != "s" || len(s.PIDs) != 0 {
				t.Errorf("got %+v", s)
			}
			if err := r.Remove(s.ID); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestCommandThatCannotRun(t *testing.T) {
	r := withoutCgroups(t)
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(r.tmp, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, tt := range map[string]struct {
		argv, dir string
		want      error
	}{
		"not in PATH":              {argv: "no-such-command", want: fs.ErrNotExist},
		"no such file":             {argv: "/no/such/file", want: fs.ErrNotExist},
		"a directory":              {argv: r.tmp, want: syscall.EISDIR},
		"not executable":           {argv: write("plain", "x", 0o644), want: fs.ErrPermission},
		"no directory to start in": {argv: "true", dir: "/no/such/dir", want: fs.ErrNotExist},
		"no program":               {argv: write("empty", "\x00\x01", 0o755), want: syscall.ENOEXEC},
		"interpreter missing":      {argv: write("script", "#!/no/such/shell\n", 0o755), want: fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			s := r.shell("s", "")
			s.Argv, s.Dir = []string{tt.argv}, tt.dir
			p, err := r.Prepare(t.Context(), s)
			if err == nil {
				err = p.Go()
				p.Wait()
			}
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.argv) && tt.dir == "" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestHelperIsNotOurBinary(t *testing.T) {
	r := withoutCgroups(t)
	r.config.Exec = "/bin/true"
	if _, err := r.restart(t).Prepare(t.Context(), r.shell("s", "")); err == nil || !strings.Contains(err.Error(), "ExecMain") {
		t.Errorf("got %v", err)
	}
	r.config.Exec = "/bin/sleep-no-such"
	if _, err := r.restart(t).Prepare(t.Context(), r.shell("s", "")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestHelperStartedByHand(t *testing.T) {
	out, err := exec.Command("/proc/self/exe", driver.ExecCommand, "x").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "by hand") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestPrepareIsCancelled(t *testing.T) {
	r := withoutCgroups(t)
	if _, err := r.Prepare(expired(), r.shell("s", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	r := withoutCgroups(t)
	for name, spoil := range map[string]func(*driver.Spec){
		"no id":             func(s *driver.Spec) { s.ID = "" },
		"id with a slash":   func(s *driver.Spec) { s.ID = "../x" },
		"long id":           func(s *driver.Spec) { s.ID = strings.Repeat("x", 129) },
		"no command":        func(s *driver.Spec) { s.Argv = nil },
		"negative memory":   func(s *driver.Spec) { s.Memory = -1 },
		"oom_score_adj":     func(s *driver.Spec) { s.OOMScoreAdj = 1001 },
		"relative dir":      func(s *driver.Spec) { s.Dir = "here" },
		"NUL in a variable": func(s *driver.Spec) { s.Env = []string{"A=\x00"} },
	} {
		s := r.shell("s", "")
		spoil(&s)
		if _, err := r.Prepare(t.Context(), s); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestOneSandboxPerID(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		r.prepare(t, r.shell("s", ""))
		if _, err := r.Prepare(t.Context(), r.shell("s", "")); err == nil {
			t.Error("an id was booted twice")
		}
	})
}

func TestIDsThatAreNamesToTheKernel(t *testing.T) {
	r := withCgroups(t)
	for _, id := range []string{"..", ".", "memory.max", "cgroup.procs", "tasks", "a:b"} {
		if exit := r.run(t, r.shell(id, "exit 3")).Wait(); exit.Code != 3 || exit.Err != nil {
			t.Errorf("%s: %v", id, exit)
		}
	}
}

func TestUserIsDropped(t *testing.T) {
	needRoot(t)
	everywhere(t, func(t *testing.T, r *rig) {
		s := r.shell("s", "id -u; id -g; id -G; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status; echo again >> /proc/self/fd/1")
		s.UID, s.GID, s.Groups = 65534, 65534, []uint32{1234}
		if exit := r.run(t, s).Wait(); exit.Code != 0 {
			t.Error(exit)
		}
		out := r.stdout(t, "s")
		if !strings.HasPrefix(out, "65534\n65534\n65534 1234\n") || strings.Count(out, "0000000000000000") != 4 || !strings.HasSuffix(out, "again\n") {
			t.Error(out)
		}
		name, _ := r.Logs("s")
		if info, err := os.Stat(name); err != nil || info.Sys().(*syscall.Stat_t).Uid != 65534 {
			t.Errorf("the log is not its user's: %+v, %v", info, err)
		}
		s.UID = 65533
		if _, err := r.Prepare(t.Context(), s); err == nil {
			t.Error("another user was given the log")
		}
	})
}

func TestRightsOfTheUserDecide(t *testing.T) {
	needRoot(t)
	r := withoutCgroups(t)
	private := filepath.Join(r.tmp, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	s := r.shell("s", "")
	s.UID, s.GID, s.Dir = 65534, 65534, private
	if _, err := r.Prepare(t.Context(), s); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

func TestLogsFollowNoLinks(t *testing.T) {
	r := withoutCgroups(t)
	name, _ := r.Logs("s")
	target := filepath.Join(r.tmp, "target")
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Prepare(t.Context(), r.shell("s", "")); err == nil || r.has("target") {
		t.Errorf("a link was followed: %v", err)
	}
}

func TestOOMScoreIsNotInherited(t *testing.T) {
	const own = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(own)
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(own, []byte("321"), 0o644); err != nil {
		t.Skip(err)
	}
	defer os.WriteFile(own, before, 0o644)
	everywhere(t, func(t *testing.T, r *rig) {
		for _, want := range []int{700, 100} {
			s := r.shell("s"+strconv.Itoa(want), "cat /proc/self/oom_score_adj")
			s.OOMScoreAdj = want
			r.run(t, s).Wait()
			if got := r.stdout(t, s.ID); got != strconv.Itoa(want)+"\n" {
				t.Errorf("oom_score_adj is %s, want %d", got, want)
			}
		}
	})
}

func TestLimitIsApplied(t *testing.T) {
	r := withCgroups(t)
	s := r.shell("s", "cat /proc/self/cgroup")
	s.Memory = 64 * gate.MiB
	p := r.prepare(t, s)
	file := "memory.max"
	if r.machine.Memory().Version == 1 {
		file = "memory.limit_in_bytes"
	}
	got, err := os.ReadFile(filepath.Join(r.machine.Memory().Dir(p.Cgroup()), file))
	if err != nil || strings.TrimSpace(string(got)) != "67108864" {
		t.Errorf("limit %q, %v", got, err)
	}
	if _, err := r.machine.ResidentCgroup(p.Cgroup()); err != nil {
		t.Error(err)
	}
	if err := p.Go(); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if out := r.stdout(t, "s"); !strings.Contains(out, ":"+p.Cgroup()+"\n") {
		t.Errorf("not in %s:\n%s", p.Cgroup(), out)
	}
	if _, err := r.machine.ResidentCgroup(p.Cgroup()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cgroup is still there: %v", err)
	}
}

func TestOOM(t *testing.T) {
	r := withCgroups(t)
	s := r.shell("s", "exec tail /dev/zero")
	s.Memory = 48 * gate.MiB
	exit := r.run(t, s).Wait()
	if !exit.OOM || !exit.OwnLimit || exit.Signal != syscall.SIGKILL || exit.Err != nil {
		t.Errorf("got %v", exit)
	}
	s = r.shell("s", "tail /dev/zero; exit 4")
	s.Memory = 48 * gate.MiB
	if exit := r.run(t, s).Wait(); !exit.OOM || exit.Code != 4 {
		t.Errorf("a child's end was not seen: %v", exit)
	}
	if exit := r.run(t, r.shell("s", "exit 0")).Wait(); exit.OOM || exit.OwnLimit {
		t.Errorf("kills of an earlier sandbox were counted: %v", exit)
	}
}

// An agent without any rights boots as its own user, without cgroups, and says so.
func TestUnprivilegedAgent(t *testing.T) {
	if os.Getenv("UNPRIVILEGED") == "" {
		needRoot(t)
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestUnprivilegedAgent$", "-test.v")
		cmd.Env = append(os.Environ(), "UNPRIVILEGED=1", "TMPDIR=/tmp")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestUnprivilegedAgent") {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	r := newRig(t, "/")
	if len(r.Warnings()) == 0 || !strings.Contains(strings.Join(r.Warnings(), "\n"), "Remedy: ") {
		t.Errorf("no word of what is missing: %v", r.Warnings())
	}
	if exit := r.run(t, r.shell("s", "exit 5")).Wait(); exit.Code != 5 {
		t.Error(exit)
	}
	s := r.shell("s", "")
	s.UID = 0
	if _, err := r.Prepare(t.Context(), s); err == nil {
		t.Error("it booted as root")
	}
	s = r.shell("s", "")
	s.OOMScoreAdj = -500
	if _, err := r.Prepare(t.Context(), s); !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		t.Errorf("oom_score_adj was lowered: %v", err)
	}
}
