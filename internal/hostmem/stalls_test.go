package hostmem_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// T99: what stalls within a second is told within it, though avg10 (a mean over ten seconds that
// the kernel brings up to date every two) still shows next to nothing; and it is forgotten a
// second after it is over.
func TestStallsOfTheLastSecond(t *testing.T) {
	var s hostmem.Stalls
	now, some := time.Hour, 7*time.Hour
	step := func(for_ time.Duration, share int64) (got int64) {
		for end := now + for_; now < end; {
			now += 50 * time.Millisecond
			some += 50 * time.Millisecond * time.Duration(share) / 100
			got, _ = s.Add(now, hostmem.PSI{SomeTotal: some, SomeAvg10: 33})
		}
		return got
	}
	for _, c := range []struct {
		for_  time.Duration
		share int64 // percent that is stalled meanwhile
		want  int64 // hundredths of a percent told at the end
	}{
		{400 * time.Millisecond, 40, 0}, // too little was seen to tell
		{time.Second, 0, 0},
		{250 * time.Millisecond, 40, 10_00}, // a quarter of a second alone is 10 % of one
		{250 * time.Millisecond, 40, 20_00},
		{time.Second, 40, 40_00},
		{500 * time.Millisecond, 0, 20_00},
		{500 * time.Millisecond, 0, 0},
		{3 * time.Second, 100, 100_00},
	} {
		if got := step(c.for_, c.share); got < c.want-20 || got > c.want+20 {
			t.Errorf("at %v: %d, want %d", now, got, c.want)
		}
	}
}

func TestStallsAtAnyPace(t *testing.T) {
	for _, pace := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 70 * time.Millisecond, 700 * time.Millisecond, 10 * time.Second} {
		var s hostmem.Stalls
		var some, full int64
		for i := range time.Duration(3000) {
			now := i * pace
			some, full = s.Add(now, hostmem.PSI{SomeTotal: now / 4, FullTotal: now / 8})
		}
		if some < 24_50 || some > 25_50 || full < 12_00 || full > 13_00 {
			t.Errorf("every %v: %d, %d", pace, some, full)
		}
	}
}

// Counters that go back are another boot's: nothing is made of them.
func TestStallsThatGoBack(t *testing.T) {
	var s hostmem.Stalls
	s.Add(time.Hour, hostmem.PSI{SomeTotal: time.Hour})
	if some, full := s.Add(time.Hour+time.Second, hostmem.PSI{SomeTotal: time.Minute}); some != 0 || full != 0 {
		t.Errorf("%d, %d", some, full)
	}
	if some, _ := s.Add(time.Hour+2*time.Second, hostmem.PSI{SomeTotal: time.Minute + 100*time.Millisecond}); some != 10_00 {
		t.Errorf("%d", some)
	}
}

func FuzzStalls(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s hostmem.Stalls
		var now, some, full time.Duration
		for ; len(data) >= 3; data = data[3:] {
			now += time.Duration(int8(data[0])) * 10 * time.Millisecond
			some += time.Duration(int8(data[1])) * 10 * time.Millisecond
			full += time.Duration(int8(data[2])) * 10 * time.Millisecond
			a, b := s.Add(now, hostmem.PSI{SomeTotal: some, FullTotal: full})
			if a < 0 || a > 100_00 || b < 0 || b > 100_00 {
				t.Fatalf("at %v: %d, %d", now, a, b)
			}
		}
	})
}

// A kernel that gives no wake-up is not mistaken for one that is calm for ever.
func TestNoTrigger(t *testing.T) {
	for name, m := range map[string]*hostmem.Machine{
		"no PSI":          bare.discover(t),
		"a file of words": bare.with(files{"proc/pressure/memory": "some avg10=0.00 total=0\n"}).discover(t),
	} {
		trigger, err := m.Trigger(1000)
		if name == "no PSI" {
			if !errors.Is(err, hostmem.ErrNoTrigger) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil { // a plain file takes the words and never wakes anybody, but for an end
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := trigger.Wait(ctx); err == nil {
			t.Errorf("%s: woken", name)
		}
		cancel()
		trigger.Close()
	}
}

// T99, T105, with the kernel's own: processes that stall for memory wake us, and the counters of the
// last second tell so while avg10 is still a fraction of it.
func TestRealTrigger(t *testing.T) {
	m := realMachine(t)
	trigger, err := m.Trigger(100)
	if errors.Is(err, hostmem.ErrNoTrigger) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer trigger.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var s hostmem.Stalls
	read := func() (hostmem.PSI, int64) {
		p, ok, err := m.Pressure("")
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		some, _ := s.Add(hostmem.BootTime(), p)
		return p, some
	}
	read()
	thrash(ctx, t, m)
	woken := make(chan error, 1)
	go func() { woken <- trigger.Wait(ctx) }()
	for most := int64(0); ; {
		select {
		case err := <-woken:
			if err != nil {
				t.Fatalf("not woken: %v; at most %d within a second", err, most)
			}
			p, some := read()
			t.Logf("woken by a window of %v: %d hundredths of a percent within the last second, avg10 %d", trigger.Window, max(most, some), p.SomeAvg10)
			return
		case <-time.After(50 * time.Millisecond):
			_, some := read()
			most = max(most, some)
		}
	}
}

// TestMain lets the test binary also be what stalls for memory.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "thrash" {
		if err := thrashMain(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// thrashMain reads pages of a file that are in no memory, from a cgroup that cannot hold them all,
// until it is killed.
func thrashMain(group, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	pages, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if err := unix.Madvise(pages, unix.MADV_RANDOM); err != nil {
		return err
	}
	for sum := byte(0); ; {
		sum += pages[rand.IntN(len(pages))]
		runtime.KeepAlive(sum)
	}
}

// thrash has processes read more file than their cgroup may hold, again and again.
func thrash(ctx context.Context, t *testing.T, m *hostmem.Machine) {
	t.Helper()
	h := m.Memory()
	if !h.Mounted() || os.Geteuid() != 0 {
		t.Skip("needs a memory controller, and root")
	}
	group := filepath.Join(h.Mount, fmt.Sprintf("plimsoll-thrash-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		for range 100 {
			if os.Remove(group) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond) // the kernel calls it busy for a moment
		}
		t.Errorf("%s was left behind", group)
	})
	limit := map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[h.Version]
	if err := os.WriteFile(filepath.Join(group, limit), []byte(strconv.Itoa(48<<20)), 0); err != nil {
		t.Skip(err)
	}
	name := filepath.Join(t.TempDir(), "large")
	f, err := os.Create(name)
	if err == nil {
		_, err = f.Write(make([]byte, 96<<20))
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c := exec.CommandContext(ctx, "/proc/self/exe", "thrash", group, name)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	}
}
