package hostmem_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// These look at the machine that the tests run on, whatever it is.

func realMachine(t testing.TB) *hostmem.Machine {
	t.Helper()
	m, err := hostmem.Discover("/")
	if err != nil {
		t.Skipf("this machine cannot be measured: %v", err)
	}
	return m
}

func TestRealMachine(t *testing.T) {
	m := realMachine(t)
	limits, err := m.Limits("")
	if err != nil || limits[0].Used <= 0 || limits[0].Used >= limits[0].Size {
		t.Errorf("%s: limits %+v, %v", m.Layout(), limits, err)
	}
	if _, _, err := m.Pressure(""); err != nil {
		t.Error(err)
	}
	if id, err := m.BootID(); err != nil || len(id) != 36 {
		t.Errorf("boot id %q, %v", id, err)
	}
	if a, b := hostmem.BootTime(), hostmem.BootTime(); a <= 0 || b < a {
		t.Errorf("boot time went from %v to %v", a, b)
	}
}

func TestRealResidentGrows(t *testing.T) {
	m := realMachine(t)
	before, err := m.ResidentProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	held := make([]byte, 64*gate.MiB)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	after, err := m.ResidentTree(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if grown := after.Bytes - before.Bytes; grown < 48*gate.MiB {
		t.Errorf("64 MiB were touched and %v seen", grown)
	}
	held[0]++
}

func TestRealProcessGone(t *testing.T) {
	m := realMachine(t)
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if at, err := m.StartTime(pid); err != nil || at == 0 {
		t.Errorf("running: started at %d, %v", at, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := m.ResidentProcess(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
}

// BenchmarkSample measures what one sample costs, 100 sandboxes at a time.
func BenchmarkSample(b *testing.B) {
	m := realMachine(b)
	b.Run("100 processes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for range 100 {
				if _, err := m.ResidentProcess(os.Getpid()); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("100 cgroups", func(b *testing.B) {
		if !m.Memory().Mounted() {
			b.Skip("no memory controller")
		}
		b.ReportAllocs()
		for b.Loop() {
			for range 100 {
				if _, err := m.ResidentCgroup(m.Own()); err != nil {
					b.Skip(err)
				}
			}
		}
	})
	b.Run("limits", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.Limits(""); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("process table", func(b *testing.B) {
		for b.Loop() {
			if _, err := m.Processes(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
