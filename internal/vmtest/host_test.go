package vmtest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/microvm"
)

// TestHost boots a host with the agent inside, and has the guest check it: cgroup v2, pressure,
// swap, huge pages, what the kernel kills, and an agent that is killed. T14, T96, T98, T102.
func TestHost(t *testing.T) {
	c := config(t, 640, "host", chosen())
	c.Files = map[string]string{"bin/plimsoll": built(t, "plimsoll")}
	c.Load = []microvm.Module{{Name: "brd", Params: []string{"rd_nr=2", "rd_size=262144"}}} // KiB
	boots(t, c).reports()
}

// A kernel that was told to have no pressure figures and no memory controller.
func TestHostWithoutMuch(t *testing.T) {
	c := config(t, 384, "bare")
	c.Boot = []string{"psi=0", "cgroup_disable=memory"}
	c.Files = map[string]string{"bin/plimsoll": built(t, "plimsoll")}
	boots(t, c).reports()
}

// reports takes what a guest tells of its checks, until all are over.
func (g *guest) reports() {
	t := g.t
	for seen := 0; ; {
		switch e := g.event(); e.Kind {
		case Begin:
			followed := false
			t.Run(e.Check, func(t *testing.T) { followed = true; g.follow(t, e.Check) })
			if !followed { // -run did not mean it
				g.follow(t, e.Check)
			}
			if g.lost {
				return
			}
			seen++
		case Over:
			if seen == 0 {
				t.Error("nothing was checked")
			}
			g.off()
			return
		default:
			t.Fatalf("%s: %s", e.Kind, e.Text)
		}
	}
}

// chosen is the pattern of the checks to run: -run TestHost/swap goes for the guest, too.
func chosen() string {
	_, check, _ := strings.Cut(flag.Lookup("test.run").Value.String(), "/")
	return cmp.Or(check, ".")
}

// follow takes the events of one check.
func (g *guest) follow(t *testing.T, check string) {
	outer := g.t
	g.t = t
	defer func() { g.t = outer }()
	for {
		e := g.event()
		switch {
		case e.Check != check:
			g.lost = true
			t.Fatalf("unexpected: %+v", e)
		case e.Kind == Note:
			t.Log(e.Text)
		case e.Kind == Fault:
			t.Error(e.Text)
		case e.Kind == End:
			return
		}
	}
}

// Where something is missing the test fails, and says what to do about it.
func TestWhatIsMissingIsSaid(t *testing.T) {
	t.Setenv(microvm.KernelVariable, t.TempDir())
	_, err := microvm.Find()
	says(t, err, "no kernel", "scripts/setup")
	t.Setenv("PATH", t.TempDir())
	_, err = microvm.Find()
	says(t, err, "qemu-system-x86_64", "qemu-system-x86", "no kernel")
}

// A machine that hangs does not hold up a test for ever, and of one whose kernel dies the last
// words are there.
func TestHowAMachineEnds(t *testing.T) {
	g := boots(t, config(t, 256, "touch"))
	g.answers("up")
	bored := errors.New("bored")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, bored)
	defer cancel()
	if line, err := g.Line(ctx); !errors.Is(err, bored) {
		t.Errorf("a machine that says nothing: %q, %v", line, err)
	}
	if err := g.Say("panic"); err != nil {
		t.Fatal(err)
	}
	g.off()
	if !strings.Contains(g.Tail(), "Kernel panic") {
		t.Errorf("its last words are %q", g.Tail())
	}
}

func says(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("it says %v, want %q", err, w)
		}
	}
}
