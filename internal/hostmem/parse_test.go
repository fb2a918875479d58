package hostmem_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

func TestParseMeminfo(t *testing.T) {
	for name, tt := range map[string]struct {
		text          string
		used, swapped gate.Bytes
		err           bool
	}{
		"whole": {text: meminfo32G, used: 8*gate.GiB + 2*gate.MiB, swapped: 2 * gate.MiB},
		"old kernel, no MemAvailable: only what is free counts": {
			text: "MemTotal: 1024 kB\nMemFree: 24 kB\nCached: 900 kB\n", used: 1000 * gate.KiB,
		},
		"more available than there is": {text: "MemTotal: 10 kB\nMemAvailable: 20 kB\n"},
		"absurd numbers saturate":      {text: "MemTotal: 99999999999999999999999 kB\n", used: math.MaxInt64},
		"nothing":                      {text: "", err: true},
		"no total":                     {text: "MemFree: 10 kB\n", err: true},
		"total without a number":       {text: "MemTotal: kB\n", err: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := hostmem.ParseMeminfo([]byte(tt.text))
			if (err != nil) != tt.err || m.Used() != tt.used || m.Swapped() != tt.swapped {
				t.Errorf("used %v, swapped %v, error %v", m.Used(), m.Swapped(), err)
			}
		})
	}
}

func TestParsePSI(t *testing.T) {
	const kernel = `some avg10=9.63 avg60=2.04 avg300=0.46 total=1482135
full avg10=100.00 avg60=1.85 avg300=0.42 total=1370054
`
	got, err := hostmem.ParsePSI([]byte(kernel))
	want := hostmem.PSI{
		SomeAvg10: 963, FullAvg10: 10000,
		SomeTotal: 1482135 * time.Microsecond, FullTotal: 1370054 * time.Microsecond,
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err = hostmem.ParsePSI([]byte("some avg10=0.5 total=1\n")); err != nil || got.SomeAvg10 != 50 {
		t.Errorf("one decimal, no full line: %+v, %v", got, err)
	}
	if _, err = hostmem.ParsePSI([]byte("nonsense\n")); err == nil {
		t.Error("nonsense was taken for calm")
	}
}

func TestParseStat(t *testing.T) {
	v2, err := hostmem.ParseStatV2([]byte(statV2))
	if err != nil || v2.CleanFile() != 1100*gate.MiB || v2.Anon != 700*gate.MiB || v2.Shmem != 100*gate.MiB {
		t.Errorf("v2: %+v, %v", v2, err)
	}
	v1, err := hostmem.ParseStatV1([]byte(statV1))
	if err != nil || v1.CleanFile() != 1100*gate.MiB || v1.Anon != 700*gate.MiB || v1.Swap != 50*gate.MiB {
		t.Errorf("v1: %+v, %v", v1, err)
	}
}

func TestParseStatV1Old(t *testing.T) {
	// Without total_ fields the plain ones stand in; without shmem, the cache that is on no
	// file list does.
	got, err := hostmem.ParseStatV1([]byte("cache 10000\nrss 500\nactive_file 4000\ninactive_file 5000\n"))
	if err != nil || got.Anon != 500 || got.Shmem != 1000 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestStatWithoutAnonIsNoMeasurement(t *testing.T) {
	// Zero resident would be a credit: what cannot be read must not look empty.
	if _, err := hostmem.ParseStatV2([]byte("file 10\n")); err == nil {
		t.Error("v2: no error")
	}
	if _, err := hostmem.ParseStatV1([]byte("total_cache 10\n")); err == nil {
		t.Error("v1: no error")
	}
}

func TestDirtyCacheIsNeverMoreThanTheCache(t *testing.T) {
	s := hostmem.Stat{ActiveFile: 10, Dirty: 20}
	if s.CleanFile() != 0 {
		t.Errorf("clean file cache of %v", s.CleanFile())
	}
}

func TestParseValue(t *testing.T) {
	for text, want := range map[string]gate.Bytes{
		"4096\n": 4096, "max\n": math.MaxInt64, v1Limitless: 9223372036854771712,
		"18446744073709551615\n": math.MaxInt64, "0": 0,
	} {
		if got, err := hostmem.ParseValue([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "\n", "maximum", "-1"} {
		if got, err := hostmem.ParseValue([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestParseStatus(t *testing.T) {
	got := hostmem.ParseStatus([]byte("Name:\tVmSwap: 9 kB\nVmRSS:\t 1700 kB\nRssAnon:\t 112 kB\nRssFile:\t 1588 kB\nRssShmem:\t 4 kB\nVmSwap:\t 8 kB\n"))
	want := hostmem.Status{Anon: 112 * gate.KiB, File: 1588 * gate.KiB, Shmem: 4 * gate.KiB, Swap: 8 * gate.KiB}
	if got != want {
		t.Error(cmp.Diff(want, got))
	}
	if got := hostmem.ParseStatus([]byte("VmRSS: 1700 kB\n")); got.Anon != 1700*gate.KiB {
		t.Errorf("old kernel: %+v", got)
	}
	if got := hostmem.ParseStatus([]byte("Name:\tkthreadd\nThreads:\t1\n")); got != (hostmem.Status{}) {
		t.Errorf("kernel thread: %+v", got)
	}
}

func TestParseProcessStat(t *testing.T) {
	tail := " S 1 4242 4240 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 8675309 100 200\n"
	want := hostmem.Proc{PID: 4242, Parent: 1, Session: 4240, State: 'S', StartTime: 8675309, Worked: 11}
	for _, comm := range []string{"sleep", "tmux: (server)", ") S 9 9 9 (", "a\nb", ""} {
		got, err := hostmem.ParseStat([]byte("4242 (" + comm + ")" + tail))
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", comm, got, err)
		}
	}
	for _, text := range []string{"", "4242 (a) S 1", "x (a)" + tail, "4242 a" + tail} {
		if got, err := hostmem.ParseStat([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestParseCgroup(t *testing.T) {
	got := hostmem.ParseCgroup([]byte("4:memory:/a:b/c\n2:cpu,cpuacct:/\nbroken\n0::/../up\n"))
	want := []hostmem.Membership{
		{Controllers: []string{"memory"}, Path: "/a:b/c"},
		{Controllers: []string{"cpu", "cpuacct"}, Path: "/"},
		{Path: "/up"}, // of a namespace above ours: as near as can be seen
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseMountinfo(t *testing.T) {
	text := strings.Join([]string{
		`35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`,
		`41 31 0:38 /box /a\040b rw,relatime shared:9 master:2 - cgroup2 cgroup2 rw`,
		`short - line`, `no separator here at all x`, ``,
	}, "\n")
	want := []hostmem.Mount{
		{Root: "/", Point: "/sys/fs/cgroup/memory", FSType: "cgroup", Super: []string{"rw", "memory"}},
		{Root: "/box", Point: "/a b", FSType: "cgroup2", Super: []string{"rw"}},
	}
	if diff := cmp.Diff(want, hostmem.ParseMountinfo([]byte(text))); diff != "" {
		t.Error(diff)
	}
}

func TestParseOOM(t *testing.T) {
	own := hostmem.ParseEvents([]byte("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"))
	if own != (hostmem.OOM{Kills: 2, OwnLimit: true, Met: 3}) {
		t.Errorf("own limit: %+v", own)
	}
	host := hostmem.ParseEvents([]byte("max 0\noom 0\noom_kill 1\n"))
	if host != (hostmem.OOM{Kills: 1}) {
		t.Errorf("host out of memory: %+v", host)
	}
	// Once at its own limit, and later the host's: each time at its own has one victim, or all.
	both := hostmem.ParseEvents([]byte("oom 1\noom_kill 2\noom_group_kill 0\n"))
	if both != (hostmem.OOM{Kills: 2, Met: 1}) {
		t.Errorf("its own limit first, then the host's: %+v", both)
	}
	group := hostmem.ParseEvents([]byte("oom 1\noom_kill 9\noom_group_kill 1\n"))
	if group != (hostmem.OOM{Kills: 9, OwnLimit: true, Met: 1}) {
		t.Errorf("the whole group at its own limit: %+v", group)
	}
	if v1 := hostmem.ParseOOMControl([]byte("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")); v1.Kills != 3 {
		t.Errorf("v1: %+v", v1)
	}
}

func TestParseKills(t *testing.T) {
	if n, ok := hostmem.ParseKills([]byte("pgsteal_kswapd 0\noom_kill 3\nnuma_hit 9\n")); n != 3 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if n, ok := hostmem.ParseKills([]byte("pgsteal_kswapd 0\n")); n != 0 || ok {
		t.Errorf("a kernel that does not count: %d, %v", n, ok)
	}
	if got := hostmem.ParseCPU([]byte("usage_usec 1482135\nuser_usec 1370054\n")); got != 1482135*time.Microsecond {
		t.Errorf("worked for %v", got)
	}
}

func TestParseBootID(t *testing.T) {
	if id, err := hostmem.ParseBootID([]byte("3f0c1b52-6f9f\n")); err != nil || id != "3f0c1b52-6f9f" {
		t.Errorf("got %q, %v", id, err)
	}
	if _, err := hostmem.ParseBootID([]byte("\n")); err == nil {
		t.Error("an empty boot id was taken for one")
	}
}

func TestRefaults(t *testing.T) {
	for text, want := range map[string]int64{
		"workingset_refault_anon 3\nworkingset_refault_file 9127\n": 9127,
		"workingset_refault 12\n":                                   12, // before Linux 5.9
		"workingset_refault_file 5\nworkingset_refault 12\n":        5,
		"workingset_refault_file 99999999999999999999\n":            1 << 53,
		"pgsteal_kswapd 0\n":                                        -1,
		"workingset_refault_file\n":                                 -1,
		"":                                                          -1,
	} {
		if n, ok := hostmem.ParseRefaults([]byte(text)); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: %d, %v", text, n, ok)
		}
	}
	m := pureV2.with(files{"proc/vmstat": "oom_kill 3\nworkingset_refault_file 7\n"}).discover(t)
	if n, ok := m.FileRefaults(); n != 7 || !ok {
		t.Errorf("of the machine: %d, %v", n, ok)
	}
	if n, ok := bare.discover(t).FileRefaults(); ok {
		t.Errorf("without the file: %d", n)
	}
	for _, c := range []struct {
		parse func([]byte) (hostmem.Stat, error)
		text  string
		want  int64
	}{
		{hostmem.ParseStatV2, statV2, 99},
		{hostmem.ParseStatV1, statV1, 99},
		{hostmem.ParseStatV1, strings.ReplaceAll(statV1, "total_workingset_refault_file 99\n", ""), 0},
		{hostmem.ParseStatV2, strings.ReplaceAll(statV2, "workingset_refault_file 99\n", ""), 0},
	} {
		if s, err := c.parse([]byte(c.text)); err != nil || s.Refaults != c.want {
			t.Errorf("%+v, want %d, %v", s, c.want, err)
		}
	}
}
