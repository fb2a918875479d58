package hostmem_test

import (
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// Whatever the text, a parser returns; and no amount of memory it names is negative, since
// a negative use would be a credit.

func notNegative(t *testing.T, all ...gate.Bytes) {
	t.Helper()
	for i, b := range all {
		if b < 0 {
			t.Errorf("amount %d is negative: %v", i, b)
		}
	}
}

func FuzzMeminfo(f *testing.F) {
	f.Add([]byte(meminfo32G))
	f.Add([]byte("MemTotal: 99999999999999999999 kB\nMemAvailable:"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := hostmem.ParseMeminfo(text)
		notNegative(t, m.Total, m.Available, m.Used(), m.Swapped())
		if err == nil && m.Total == 0 {
			t.Error("a machine without memory and without error")
		}
	})
}

func FuzzPSI(f *testing.F) {
	f.Add([]byte("some avg10=9.63 avg60=2.04 avg300=0.46 total=1482135\nfull avg10=0.00 total=0\n"))
	f.Add([]byte("some avg10=999999999999999999.9999 total=99999999999999999999"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, _ := hostmem.ParsePSI(text)
		if p.SomeAvg10 < 0 || p.FullAvg10 < 0 || p.SomeTotal < 0 || p.FullTotal < 0 {
			t.Errorf("negative pressure: %+v", p)
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add([]byte(statV1))
	f.Add([]byte(statV2))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, parse := range []func([]byte) (hostmem.Stat, error){hostmem.ParseStatV1, hostmem.ParseStatV2} {
			s, _ := parse(text)
			notNegative(t, s.Anon, s.Shmem, s.Swap, s.SwapCached, s.File(), s.CleanFile(), s.Above, gate.Bytes(s.Refaults))
		}
	})
}

func FuzzValue(f *testing.F) {
	f.Add([]byte("max\n"))
	f.Add([]byte(v1Limitless))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, _ := hostmem.ParseValue(text)
		notNegative(t, n)
	})
}

func FuzzOOM(f *testing.F) {
	f.Add([]byte("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if hostmem.ParseEvents(text).Kills < 0 || hostmem.ParseOOMControl(text).Kills < 0 {
			t.Error("negative kills")
		}
	})
}

func FuzzRefaults(f *testing.F) {
	f.Add([]byte("workingset_refault_anon 3\nworkingset_refault_file 9127\n"))
	f.Add([]byte("workingset_refault 99999999999999999999\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, ok := hostmem.ParseRefaults(text); n < 0 || n > 0 && !ok {
			t.Errorf("%d, %v", n, ok)
		}
	})
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte("VmRSS:\t 1700 kB\nRssAnon:\t 112 kB\nRssShmem:\t 4 kB\nVmSwap:\t 8 kB\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := hostmem.ParseStatus(text)
		notNegative(t, s.Anon, s.File, s.Shmem, s.Swap)
	})
}

func FuzzProcessStat(f *testing.F) {
	f.Add([]byte("4242 (tmux: (server)) S 1 4242 4242 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 8675309 100\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, _ := hostmem.ParseStat(text); p.PID < 0 || p.Parent < 0 || p.Session < 0 {
			t.Errorf("negative pid, which kill(2) takes for a group: %+v", p)
		}
	})
}

func FuzzCgroup(f *testing.F) {
	f.Add([]byte("4:memory:/a:b\n0::/x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, m := range hostmem.ParseCgroup(text) {
			if m.Path == "" || m.Path[0] != '/' {
				t.Errorf("relative path %q", m.Path)
			}
		}
	})
}

func FuzzMountinfo(f *testing.F) {
	f.Add([]byte("41 31 0:38 / /a\\040b rw shared:9 - cgroup2 cgroup2 rw\n"))
	f.Fuzz(func(t *testing.T, text []byte) { hostmem.ParseMountinfo(text) })
}

func FuzzBootID(f *testing.F) {
	f.Add([]byte("3f0c1b52-6f9f-4f0e-9a53-0f7f1c3a7c11\n"))
	f.Fuzz(func(t *testing.T, text []byte) { hostmem.ParseBootID(text) })
}
