package hostmem_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

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

// What a cgroup lacks is looked for again, some rounds later.
func TestKeepLooksAgain(t *testing.T) {
	tree := hybrid
	m := tree.discover(t).Keep()
	defer m.Close()
	before, err := m.ResidentCgroup("agents")
	if err != nil || before.CPU >= 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	stat := m.Unified().Dir("agents") + "/cpu.stat"
	os.MkdirAll(m.Unified().Dir("agents"), 0o755)
	if err := os.WriteFile(stat, []byte("usage_usec 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for round := 0; ; round++ {
		r, err := m.ResidentCgroup("agents")
		if err != nil || round > 20 {
			t.Fatalf("round %d: %+v, %v", round, r, err)
		}
		if r.CPU == 7*time.Microsecond {
			return
		}
		m.Turn()
	}
}

// The root of a machine's own cgroups has no limit, and its statistics are not asked for; what a
// container sees as its root has what lies above it.
func TestTheRootBoundsNothing(t *testing.T) {
	above := files{
		"sys/fs/cgroup/memory/memory.usage_in_bytes": "4096\n",
		"sys/fs/cgroup/memory/memory.stat":           "rss 1\nhierarchical_memory_limit 1048576\ntotal_rss 1\ntotal_dirty 0\ntotal_writeback 0\n",
	}
	within := hybrid.with(above)
	limits, err := within.discover(t).Limits("agents")
	if err != nil || !slices.ContainsFunc(limits, func(l gate.Limit) bool { return l.Name == "cgroup:/" && l.Size == gate.MiB }) {
		t.Errorf("in a container: %+v, %v", limits, err)
	}
	root := within.with(files{"sys/fs/cgroup/memory/release_agent": "\n"})
	limits, err = root.discover(t).Limits("agents")
	if err != nil || slices.ContainsFunc(limits, func(l gate.Limit) bool { return l.Name == "cgroup:/" }) {
		t.Errorf("at the root: %+v, %v", limits, err)
	}
}
