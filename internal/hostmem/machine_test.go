package hostmem_test

import (
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

func TestDiscover(t *testing.T) {
	for want, tree := range map[string]files{
		"no cgroups":                  bare,
		"cgroup v2":                   pureV2,
		"hybrid: memory on cgroup v1": hybrid,
		"cgroup v2 without the memory controller": pureV2.with(files{
			"sys/fs/cgroup/cgroup.controllers": "cpu pids\n",
		}),
		"cgroup v1": hybrid.with(files{
			"proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
		}),
	} {
		if got := tree.discover(t).Layout(); got != want {
			t.Errorf("%s was taken for %s", want, got)
		}
	}
}

func TestDiscoverWithoutProc(t *testing.T) {
	if _, err := hostmem.Discover(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestLimits(t *testing.T) {
	machine := gate.Limit{Name: "machine", Size: 32 * gate.GiB, Used: 8*gate.GiB + 2*gate.MiB}
	for name, tt := range map[string]struct {
		tree   files
		parent string
		want   []gate.Limit
	}{
		"no cgroups": {bare, "plimsoll/h1", []gate.Limit{machine}},
		// 4,096 − 1,100 clean + 50 swapped; the agent's own 1,900 − 1,100, without a swap file.
		"v2: the parent's ancestor and the agent's own": {pureV2, "plimsoll/h1", []gate.Limit{
			machine,
			{Name: "cgroup:/plimsoll", Size: 8 * gate.GiB, Used: 3046 * gate.MiB},
			{Name: "cgroup:/system.slice/plimsoll.service", Size: 2 * gate.GiB, Used: 800 * gate.MiB},
		}},
		"v2: a parent that is not there yet": {pureV2, "elsewhere/h1", []gate.Limit{
			machine,
			{Name: "cgroup:/system.slice/plimsoll.service", Size: 2 * gate.GiB, Used: 800 * gate.MiB},
		}},
		"v1: above both, counted once": {hybrid, "agents/sandboxes", []gate.Limit{
			machine,
			{Name: "cgroup:/agents", Size: 4 * gate.GiB, Used: 850 * gate.MiB},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.tree.discover(t).Limits(tt.parent)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// T14: the machine has plenty and the agent's own cgroup 2 GiB; what is free is told by it.
func TestSmallOwnCgroupBindsOnABigMachine(t *testing.T) {
	limits, err := pureV2.discover(t).Limits("")
	if err != nil {
		t.Fatal(err)
	}
	free, name := gate.Free(limits)
	if free != 1248*gate.MiB || name != "cgroup:/system.slice/plimsoll.service" {
		t.Errorf("%v free under %s", free, name)
	}
}

// T96: 20 GiB of clean file cache are no use at all, as dirty cache they are.
func TestCleanFileCacheIsNoUse(t *testing.T) {
	for dirty, want := range map[string]gate.Bytes{"0": 4 * gate.GiB, "21474836480": 24 * gate.GiB} {
		m := pureV2.with(files{
			"sys/fs/cgroup/plimsoll/memory.max":          "34359738368\n",
			"sys/fs/cgroup/plimsoll/memory.current":      "25769803776\n",
			"sys/fs/cgroup/plimsoll/memory.swap.current": "0\n",
			"sys/fs/cgroup/plimsoll/memory.stat":         "anon 4294967296\nactive_file 1073741824\ninactive_file 20401094656\nfile_writeback 0\nfile_dirty " + dirty + "\n",
		}).discover(t)
		limits, err := m.Limits("plimsoll")
		if err != nil {
			t.Fatal(err)
		}
		if limits[1].Used != want {
			t.Errorf("with %s dirty, used %v, want %v", dirty, limits[1].Used, want)
		}
	}
}

func TestContainerSeesItsOwnPartOnly(t *testing.T) {
	// Docker on v1 without a cgroup namespace: the mount shows the container's cgroup at its
	// top, and memory.stat alone knows of the limit of 1 GiB somewhere above.
	m := bare.with(files{
		"proc/self/mountinfo":                        "35 31 0:32 /docker/c0ffee /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
		"proc/self/cgroup":                           "4:memory:/docker/c0ffee\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": v1Limitless,
		"sys/fs/cgroup/memory/memory.usage_in_bytes": "104857600\n",
		"sys/fs/cgroup/memory/memory.stat":           "hierarchical_memory_limit 1073741824\ntotal_rss 104857600\n",
	}).discover(t)
	limits, err := m.Limits("plimsoll/h1")
	if err != nil {
		t.Fatal(err)
	}
	got := limits[len(limits)-1]
	if len(limits) < 2 || got.Size != gate.GiB || got.Used != 100*gate.MiB {
		t.Errorf("got %+v", limits)
	}
}

func TestUnreadableLimitIsAnError(t *testing.T) {
	m := pureV2.with(files{"sys/fs/cgroup/plimsoll/memory.stat": "garbage\n"}).discover(t)
	if limits, err := m.Limits("plimsoll"); err == nil {
		t.Errorf("an unmeasured cgroup was passed over: %+v", limits)
	}
}

func TestResidentCgroup(t *testing.T) {
	v2 := pureV2.discover(t)
	got, err := v2.ResidentCgroup("plimsoll")
	want := hostmem.Resident{Bytes: 850 * gate.MiB, Swapped: 50 * gate.MiB, FileCache: 1200 * gate.MiB, Refaults: 99, CPU: -1}
	if err != nil || got != want {
		t.Errorf("v2: %+v, %v", got, err)
	}
	if got, err := hybrid.discover(t).ResidentCgroup("agents"); err != nil || got != want {
		t.Errorf("v1: %+v, %v", got, err)
	}
	if _, err := v2.ResidentCgroup("plimsoll/gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	if _, err := bare.discover(t).ResidentCgroup("x"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a machine without cgroups must not report a sandbox as ended: %v", err)
	}
}

func TestPressure(t *testing.T) {
	const some = "some avg10=9.63 avg60=2.04 avg300=0.46 total=7\n"
	m := hybrid.with(files{
		"proc/pressure/memory":                        some,
		"sys/fs/cgroup/unified/old/cgroup.procs":      "",
		"sys/fs/cgroup/unified/young/memory.pressure": some,
	}).discover(t)
	for cgroup, want := range map[string]bool{"": true, "young": true, "old": false} {
		if p, ok, err := m.Pressure(cgroup); err != nil || ok != want || ok && p.SomeAvg10 != 963 {
			t.Errorf("%q: %+v, %v, %v", cgroup, p, ok, err)
		}
	}
	if _, _, err := m.Pressure("gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	for _, cgroup := range []string{"", "x"} {
		if _, ok, err := bare.discover(t).Pressure(cgroup); ok || err != nil {
			t.Errorf("no PSI, no cgroups, %q: %v, %v", cgroup, ok, err)
		}
	}
}

func TestOOMOfACgroup(t *testing.T) {
	v1 := hybrid.with(files{
		"sys/fs/cgroup/memory/s/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
		"sys/fs/cgroup/memory/s/memory.failcnt":     "17\n",
	}).discover(t)
	v2 := pureV2.with(files{"sys/fs/cgroup/s/memory.events": "oom 1\noom_kill 1\n"}).discover(t)
	for _, m := range []*hostmem.Machine{v1, v2} {
		if o, err := m.OOM("s"); err != nil || o.Kills != 1 || !o.OwnLimit {
			t.Errorf("%s: %+v, %v", m.Layout(), o, err)
		}
		if _, err := m.OOM("gone"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: gone: %v", m.Layout(), err)
		}
	}
}

// What sandboxes met at their own limits is not the host's; what the cgroup of them all met is.
func TestKillsOfTheMachine(t *testing.T) {
	v2 := pureV2.with(files{
		"proc/vmstat":                                "nr_free_pages 1\noom_kill 9\n",
		"sys/fs/cgroup/plimsoll/memory.events":       "oom 5\noom_kill 7\n",
		"sys/fs/cgroup/plimsoll/memory.events.local": "oom 1\noom_kill 0\n",
	}).discover(t)
	if n, ok, err := v2.Kills("plimsoll"); n != 5 || !ok || err != nil {
		t.Errorf("v2: %d, %v, %v", n, ok, err)
	}
	if n, ok, err := v2.Kills("gone"); n != 9 || !ok || err != nil {
		t.Errorf("nothing below: %d, %v, %v", n, ok, err)
	}
	v1 := hybrid.with(files{"proc/vmstat": "oom_kill 9\n"}).discover(t)
	if n, ok, err := v1.Kills("plimsoll"); n != 9 || !ok || err != nil {
		t.Errorf("v1: %d, %v, %v", n, ok, err)
	}
	if n, ok, err := pureV2.discover(t).Kills("plimsoll"); n != 0 || ok || err != nil {
		t.Errorf("a kernel that does not say: %d, %v, %v", n, ok, err)
	}
}

func TestWorkOfACgroup(t *testing.T) {
	m := pureV2.with(files{"sys/fs/cgroup/plimsoll/cpu.stat": "usage_usec 2000\nuser_usec 1\n"}).discover(t)
	if r, err := m.ResidentCgroup("plimsoll"); err != nil || r.CPU != 2*time.Millisecond {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		cgroup, above string
		want          bool
	}{
		{"/a/b", "/a", true}, {"a/b", "/a/b", true}, {"/ab", "/a", false}, {"/a", "/a/b", false},
	} {
		if got := hostmem.Below(c.cgroup, c.above); got != c.want {
			t.Errorf("%s below %s: %v", c.cgroup, c.above, got)
		}
	}
}

// Several look at once: what one has read is not the next one's to write over.
func TestDiscoverAtOnce(t *testing.T) {
	root := pureV2.write(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if m, err := hostmem.Discover(root); err != nil || m.Layout() != "cgroup v2" {
					t.Errorf("%v, %v", m.Layout(), err)
				}
			}
		})
	}
	all.Wait()
}
