package hostmem_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(all)
}

// What is held open is read anew each time, told gone when its process is, and closed when nobody
// read it for a turn.
func TestKeep(t *testing.T) {
	before := descriptors(t)
	m := realMachine(t).Keep()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if _, err := m.ResidentProcess(pid); err != nil {
		t.Fatal(err)
	}
	first, err := m.ResidentProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	held := make([]byte, 64*gate.MiB)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	if now, err := m.ResidentProcess(os.Getpid()); err != nil || now.Bytes-first.Bytes < 48*gate.MiB {
		t.Errorf("64 MiB were touched: %v after %v, %v", now.Bytes, first.Bytes, err)
	}
	held[0]++
	cmd.Process.Kill()
	cmd.Wait()
	for range 2 {
		if _, err := m.ResidentProcess(pid); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("gone: %v", err)
		}
	}
	m.Turn()
	m.ResidentProcess(os.Getpid())
	m.Limits("")
	m.Turn()
	m.Turn()
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
	m.ResidentProcess(os.Getpid())
	m.Close()
	if now := descriptors(t); now != before {
		t.Errorf("closed: %d descriptors, %d before", now, before)
	}
}

// A held file says the same as one that is opened anew, in every layout, however long it is.
func TestKeepSaysTheSame(t *testing.T) {
	for _, tree := range []files{pureV2, hybrid, bare} {
		m := tree.discover(t)
		k := m.Keep()
		for range 2 {
			for _, cgroup := range []string{"plimsoll", "agents", "gone"} {
				a, errA := m.ResidentCgroup(cgroup)
				b, errB := k.ResidentCgroup(cgroup)
				if a != b || (errA == nil) != (errB == nil) {
					t.Errorf("%s, %s: %+v, %v; held %+v, %v", m.Layout(), cgroup, a, errA, b, errB)
				}
			}
			a, errA := m.Limits("plimsoll/h1")
			b, errB := k.Limits("plimsoll/h1")
			if (errA == nil) != (errB == nil) || len(a) != len(b) {
				t.Errorf("%s: %+v, %v; held %+v, %v", m.Layout(), a, errA, b, errB)
			}
			k.Turn()
		}
		k.Close()
	}
	long := make([]byte, 40<<10)
	for i := range long {
		long[i] = 'x'
	}
	m := bare.with(files{"proc/7/status": string(long) + "\nRssAnon:\t 12 kB\n"}).discover(t).Keep()
	defer m.Close()
	if r, err := m.ResidentProcess(7); err != nil || r.Bytes != 12*gate.KiB {
		t.Errorf("a long one: %+v, %v", r, err)
	}
}
