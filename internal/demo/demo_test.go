package demo

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// smallBudget shows all that the large one does, with fewer processes.
const smallBudget = "1GiB"

func TestTheWholeDemo(t *testing.T) {
	p := start(t, "--budget", smallBudget)
	if status := p.status(); status != 0 {
		t.Fatalf("exit status %d:\n%s", status, &p.out)
	}
	screen := p.out.String()
	for i, s := range (&demo{}).steps() {
		if s.name == "burst" {
			continue // its title holds a number
		}
		if !strings.Contains(screen, "✓ "+string(rune('1'+i))+"  "+s.title) {
			t.Errorf("step %s has no check mark:\n%s", s.name, screen)
		}
	}
	for _, want := range []string{"admitted of 40 at once", "503 host_pressure", "refused: forged", "All of it is as it should be"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen lacks %q:\n%s", want, screen)
		}
	}
	for line := range strings.Lines(screen) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if strings.Contains(screen, "\x1b") {
		t.Error("there are escapes on a screen that is no terminal")
	}
	p.leftNothing()
}

// A demo that cannot fail shows nothing: each step is made wrong in the real system.
func TestEveryStepCanFail(t *testing.T) {
	for _, name := range stepNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "--budget", smallBudget, "--break", name)
			if status := p.status(); status != 1 {
				t.Errorf("exit status %d, want 1", status)
			}
			screen := p.out.String()
			for _, want := range []string{", " + name + ", is not as it should be", "✗ ", "expected  ", "got       "} {
				if !strings.Contains(screen, want) {
					t.Errorf("the screen lacks %q:\n%s", want, screen)
				}
			}
			p.leftNothing()
		})
	}
}

func TestASignalLeavesNothing(t *testing.T) {
	cases := []struct {
		name  string
		sent  syscall.Signal
		after string // what was last on the screen
	}{
		{"Ctrl-C before the hosts are up", unix.SIGINT, "default_quota"},
		{"TERM with reservations open", unix.SIGTERM, "✓ 2"},
		{"Ctrl-C while sandboxes run", unix.SIGINT, "✓ 5"},
		{"HUP while sandboxes run", unix.SIGHUP, "✓ 3"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "--budget", smallBudget)
			p.until(c.after)
			p.signal(c.sent)
			if status := p.status(); status != 130 {
				t.Errorf("exit status %d, want 130:\n%s", status, &p.out)
			}
			p.leftNothing()
		})
	}
}

// Nobody can clear up after a KILL. But no process goes on, and the mark finds the rest.
func TestAKilledDemoLeavesNoProcess(t *testing.T) {
	p := start(t, "--budget", smallBudget)
	p.until("✓ 5")
	mine := p.plan()
	if len(marked(mine.run)) == 0 {
		t.Fatal("no process bears the mark of the run")
	}
	p.signal(unix.SIGKILL)
	p.status()
	soon(t, func() string { return "the end of all its processes" }, func() bool { return len(marked(mine.run)) == 0 })
	if err := mine.removeGroups(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLogsAreKeptWhenAskedFor(t *testing.T) {
	p := start(t, "--budget", smallBudget, "--break", "hosts", "--keep-logs")
	if status := p.status(); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	mine := p.plan()
	if !strings.Contains(p.out.String(), "logs are in "+mine.dir) {
		t.Errorf("the screen does not say where they are:\n%s", &p.out)
	}
	for _, n := range modes() {
		if _, err := os.Stat(mine.dir + "/" + n.String() + "/up.log"); err != nil {
			t.Error(err)
		}
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--budget", "much"},
		{"--budget", ""},
		{"--budget", "1MiB"},
		{"--budget", "1TiB"},
		{"--break", "nothing"},
		{"surplus"},
		{"--keep-logs=perhaps"},
	} {
		p := start(t, args...)
		if status := p.status(); status != 64 {
			t.Errorf("%v: exit status %d, want 64:\n%s", args, status, &p.out)
		}
	}
}

func TestHelpShowsNoFlagForTests(t *testing.T) {
	p := start(t, "--help")
	if status := p.status(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	screen := p.out.String()
	if strings.Contains(screen, "--break") || strings.Contains(screen, "sandbox [") {
		t.Errorf("help shows what is hidden:\n%s", screen)
	}
	if !strings.Contains(screen, "plimsoll demo --budget 1GiB") {
		t.Errorf("help has no example:\n%s", screen)
	}
}
