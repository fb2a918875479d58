package hostmem_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

// T14: MemTotal is 128 GB, and the agent lives in 2: by memory.max, or by memory.high alone,
// above which the kernel lets all in it stall.
func TestTheLeastLimitBinds(t *testing.T) {
	const high = "sys/fs/cgroup/system.slice/plimsoll.service/memory.high"
	for text, want := range map[string]gate.Bytes{"max\n": 2 * gate.GiB, "1073741824\n": gate.GiB, "8589934592\n": 2 * gate.GiB} {
		tree := pureV2.with(files{high: text, "proc/meminfo": "MemTotal: 134217728 kB\nMemAvailable: 130000000 kB\n"})
		limits, err := tree.discover(t).Limits("plimsoll/h1")
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(limits, func(l gate.Limit) bool { return strings.HasSuffix(l.Name, "plimsoll.service") })
		if i < 0 || limits[i].Size != want {
			t.Errorf("memory.high %q: %+v", text, limits)
		}
	}
}

// T96, T99: a line that an older kernel does not have, or a newer one no longer, makes less room or
// is an error; it never makes more. Clean file cache that nobody calls clean is not.
func TestAMissingLineMakesNoRoom(t *testing.T) {
	exempt := map[string]string{
		"SwapTotal:": "without it there is no swap to count", "SwapFree:": "then all of it is used",
		"total_swap": "a kernel that does not account for swap says nothing of it",
	}
	for _, file := range []struct {
		tree files
		name string
	}{
		{pureV2, "proc/meminfo"},
		{pureV2, "sys/fs/cgroup/plimsoll/memory.stat"},
		{pureV2, "sys/fs/cgroup/system.slice/plimsoll.service/memory.stat"},
		{hybrid, "sys/fs/cgroup/memory/agents/memory.stat"},
	} {
		parent := "plimsoll/h1"
		if strings.Contains(file.name, "agents") {
			parent = "agents/one"
		}
		most, _, _ := measured(t, file.tree, parent)
		lines := strings.SplitAfter(file.tree[file.name], "\n")
		for i, line := range lines {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if exempt[word] != "" {
				continue
			}
			cut := file.tree.with(files{file.name: strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "")})
			free, by, err := measured(t, cut, parent)
			if err == nil && free > most {
				t.Errorf("%s without %q: %v free by %s, with it %v", file.name, word, free, by, most)
			}
		}
	}
}

// measured is the least room under any limit.
func measured(t *testing.T, tree files, parent string) (gate.Bytes, string, error) {
	t.Helper()
	limits, err := tree.discover(t).Limits(parent)
	free, by := gate.Free(limits)
	return free, by, err
}

// A file that is not there is tolerated where a kernel may lack it, and else an error or a
// cgroup that is not there: nothing panics, and a sandbox is never taken for one that holds
// nothing.
func TestAMissingFile(t *testing.T) {
	for _, tree := range []files{pureV2, hybrid} {
		for name := range tree {
			cut := tree.with(nil)
			delete(cut, name)
			m, err := discovered(t, cut)
			if err != nil {
				continue
			}
			for _, cgroup := range []string{"plimsoll", "agents"} {
				if r, err := m.ResidentCgroup(cgroup); err == nil && r.Bytes < 800*gate.MiB {
					t.Errorf("without %s: %s holds %v", name, cgroup, r.Bytes)
				}
			}
			if limits, err := m.Limits("plimsoll/h1"); err == nil && len(limits) == 0 {
				t.Errorf("without %s: no limit at all, and no error", name)
			}
			m.Pressure("")
			m.Pressure("plimsoll")
			m.OOM("plimsoll")
			m.HugePages()
		}
	}
}

// hugeV2 has 2 MiB pages as the default, and two of 1 GiB.
var hugeV2 = pureV2.with(files{
	"proc/meminfo": meminfo32G + "Hugepagesize:       2048 kB\n",
	"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages":    "512\n",
	"sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages":    "12\n",
	"sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "2\n",
	"sys/kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages": "0\n",
	"sys/kernel/mm/hugepages/other/x":                            "",
	"sys/fs/cgroup/plimsoll/hugetlb.2MB.current":                 "4194305\n",
	"proc/7/status": "RssAnon:\t 10 kB\nHugetlbPages:\t 6144 kB\n",
})

// Memory in huge pages counts in its own dimension, and in no other figure.
func TestHugePages(t *testing.T) {
	m := hugeV2.discover(t)
	sizes := m.HugePages()
	if len(sizes) != 2 {
		t.Fatalf("%+v", sizes)
	}
	small, large := sizes[0], sizes[1]
	for dim, want := range map[string][2]bool{
		"hugepages": {true, false}, "hugepages-2MB": {true, false}, "hugepages-1GB": {false, true}, "gpus": {},
	} {
		if got := [2]bool{small.Counts(dim), large.Counts(dim)}; got != want {
			t.Errorf("%s: %v", dim, got)
		}
	}
	if n, err := small.Free(); err != nil || n != 500 {
		t.Errorf("free: %d, %v", n, err)
	}
	if n, err := large.Free(); err != nil || n != 2 {
		t.Errorf("free: %d, %v", n, err)
	}
	if n, ok := m.HeldBy("plimsoll", small); n != 3 || !ok {
		t.Errorf("a page more than two: %d, %v", n, ok)
	}
	if _, ok := m.HeldBy("plimsoll", large); ok {
		t.Error("counted where there is no such file")
	}
	if n := m.HugePagesOf(7, small); n != 3 {
		t.Errorf("of a process: %d", n)
	}
	if r, err := m.ResidentProcess(7); err != nil || r.Bytes != 10*gate.KiB {
		t.Errorf("counted twice: %+v, %v", r, err)
	}
	if bare.discover(t).HugePages() != nil {
		t.Error("huge pages without /sys")
	}
}

// A process with all of its memory in huge pages is none whose main thread has ended.
func TestAllInHugePages(t *testing.T) {
	m := bare.with(files{
		"proc/8/status":        "HugetlbPages:\t 6144 kB\n",
		"proc/8/task/9/status": "RssAnon:\t 99 kB\n",
	}).discover(t)
	if r, err := m.ResidentProcess(8); err != nil || r.Bytes != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// On v1 huge pages have a hierarchy of their own.
func TestHugePagesV1(t *testing.T) {
	m := hybrid.with(files{
		"proc/self/mountinfo": hybrid["proc/self/mountinfo"] + "36 31 0:33 / /sys/fs/cgroup/hugetlb rw - cgroup cgroup rw,hugetlb\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "1\n",
		"sys/fs/cgroup/hugetlb/s/hugetlb.2MB.usage_in_bytes":      "2097152\n",
	}).discover(t)
	sizes := m.HugePages()
	if len(sizes) != 1 {
		t.Fatalf("%+v", sizes)
	}
	if n, ok := m.HeldBy("s", sizes[0]); n != 1 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if _, err := sizes[0].Free(); err == nil {
		t.Error("a pool without its counters was counted")
	}
}

func FuzzHugePages(f *testing.F) {
	f.Add("2048", "4194305", "512", "12")
	f.Add("18446744073709551615", "max", "-1", "")
	f.Fuzz(func(t *testing.T, size, held, free, promised string) {
		if strings.ContainsAny(size, "/\x00") || len(size) > 64 {
			return
		}
		dir := "sys/kernel/mm/hugepages/hugepages-" + size + "kB/"
		m := pureV2.with(files{
			dir + "free_hugepages": free, dir + "resv_hugepages": promised,
			"sys/fs/cgroup/plimsoll/hugetlb.2MB.current": held, "proc/7/status": "HugetlbPages: " + held + " kB\n",
		}).discover(t)
		for _, h := range m.HugePages() {
			n, _ := m.HeldBy("plimsoll", h)
			left, _ := h.Free()
			if of := m.HugePagesOf(7, h); n < 0 || left < 0 || of < 0 || h.Page <= 0 {
				t.Fatalf("%d held, %d, %d free of pages of %d", n, of, left, h.Page)
			}
		}
	})
}
