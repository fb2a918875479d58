package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
)

// smallDisk is a file system that a test can fill.
type smallDisk struct {
	dir     string
	ballast string
}

func newSmallDisk(t *testing.T) *smallDisk {
	t.Helper()
	dir, err := os.MkdirTemp("", "disk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return &smallDisk{dir, filepath.Join(dir, "ballast")}
}

func (d *smallDisk) fill(t *testing.T) {
	t.Helper()
	f, err := os.Create(d.ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func (d *smallDisk) makeRoom() { os.Remove(d.ballast) }

// On a full disk nothing is promised or booted, whoever asks is told why, and nothing that
// was promised before is lost; what ends meanwhile is told when there is room again.
func TestAFullDisk(t *testing.T) {
	disk := newSmallDisk(t)
	r := startRig(t, func(c *agent.Config) { c.Dir = disk.dir })
	pid := r.detached("runs", 1, "exec sleep 1000")
	promised := r.reserve("promised", 1)
	feed := r.Subscribe()

	disk.fill(t)
	// The last block of the file may have room for some lines more.
	var err error
	for i := 0; err == nil && i < 200; i++ {
		_, err = r.tryReserve(fmt.Sprint("x", i), 1, time.Minute, ask())
	}
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "nothing is promised or booted") {
		t.Fatalf("a full disk: %v", err)
	}
	if _, err := r.tryReserve("y", 1, time.Minute, ask()); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("reserve: %v", err)
	}
	_, err = r.boot.Redeem(t.Context(), promised)
	refused(t, err, api.Unavailable, "no space left")
	_, _, _, err = r.run(promised, shell("touch "+r.tmp+"/ran"))
	refused(t, err, api.Unavailable, "no space left")
	if _, err := os.Stat(r.tmp + "/ran"); err == nil {
		t.Error("it booted")
	}
	if reserved, _ := r.holdsNow("promised", 1); !reserved {
		t.Error("the promise is gone, though nothing came of the redeem")
	}
	if reserved, _ := r.holdsNow("y", 1); reserved {
		t.Error("promised all the same")
	}
	if n := strings.Count(r.log.String(), "state not written"); n != 1 {
		t.Errorf("said %d times", n)
	}

	unix.Kill(pid, unix.SIGKILL)
	r.eventually("it to end", func() bool { _, there := r.sandbox("runs"); return !there })
	if _, err := r.Holding(t.Context()); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a replica hears of what a restart would forget: %v", err)
	}
	r.hearsNothing(feed, "runs")

	disk.makeRoom()
	r.hears(feed, host.Ref{ID: "runs", Epoch: 1})
	if !strings.Contains(r.log.String(), "state is written again") {
		t.Error("nobody is told that it goes on")
	}
	r.redeem(promised).Close()
	r.eventually("it to be freed", func() bool { _, there := r.sandbox("promised"); return !there })
	r.reserve("z", 1)
	before := r.view().Reservations
	r.restart()
	if after := r.view().Reservations; after != before {
		t.Errorf("%d reservations after %d", after, before)
	}
	_, err = r.boot.Redeem(t.Context(), promised)
	refused(t, err, api.TicketRejected, "replayed")
}

func (r *rig) holdsNow(id string, epoch int64) (reserved, running bool) {
	r.t.Helper()
	err := r.Look(r.t.Context(), func(h *host.Host) { reserved, running = h.Holds(id, epoch) })
	if err != nil {
		r.t.Fatal(err)
	}
	return reserved, running
}

// hearsNothing fails if the end of a sandbox was told already.
func (r *rig) hearsNothing(feed *agent.Feed, id string) {
	r.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(r.t.Context(), 50*time.Millisecond)
		n, err := feed.Next(ctx)
		cancel()
		if err != nil {
			return
		}
		for _, e := range n.Ends {
			if e.ID == id {
				r.t.Errorf("told, and a restart would not know: %+v", e)
			}
		}
	}
}

// A disk that is full from the start lets no agent begin: what it promised could not last.
func TestAFullDiskAtTheStart(t *testing.T) {
	disk := newSmallDisk(t)
	r := startRig(t, func(c *agent.Config) { c.Dir = disk.dir })
	text := r.reserve("a", 1)
	r.halt()
	disk.fill(t)
	if _, err := agent.New(t.Context(), r.withDriver()); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), disk.dir) {
		t.Errorf("started on a full disk: %v", err)
	}
	disk.makeRoom()
	r.start()
	r.redeem(text).Close()
	r.idle()
}

// When the machine can no longer be measured nothing is promised until it can: the last
// figure is no figure. T52 is of this kind.
func TestTheMachineVanishes(t *testing.T) {
	root := t.TempDir()
	proc := filepath.Join(root, "proc")
	write := func(name, text string) {
		os.MkdirAll(filepath.Dir(filepath.Join(proc, name)), 0o755)
		if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/kernel/random/boot_id", "b\n")
	write("self/mountinfo", "")
	write("self/cgroup", "0::/\n")
	meminfo := "MemTotal: 33554432 kB\nMemFree: 30000000 kB\nMemAvailable: 30000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
	write("meminfo", meminfo)
	r := newRig(t)
	r.discover(root)
	r.start()
	text := r.reserve("a", 1)
	write("meminfo", "")
	r.eventually("nothing to be admittable", func() bool { return r.view().Verdict.Admittable == 0 })
	if a, err := r.tryReserve("b", 1, time.Minute, ask()); err != nil || a.Denial != host.NoRoom {
		t.Errorf("promised unmeasured: %v %v", a.Denial, err)
	}
	// What was promised before boots.
	r.redeem(text).Close()
	write("meminfo", meminfo)
	r.eventually("it to be measured again", func() bool { return r.view().Verdict.Admittable > 0 })
	r.reserve("c", 1)
	r.release("c", 1)
	r.idle()
	r.eventually("it to be said", func() bool { return strings.Contains(r.log.String(), "is measured again") })
	if n := strings.Count(r.log.String(), "cannot be measured"); n > 2 {
		t.Errorf("said %d times", n)
	}
}
