package hostmem_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// files is a fixture tree: path below the root -> content.
type files map[string]string

// with returns a copy with further files.
func (f files) with(more files) files {
	all := files{}
	for _, m := range []files{f, more} {
		for name, text := range m {
			all[name] = text
		}
	}
	return all
}

// discover writes the tree and looks at it.
func (f files) discover(t *testing.T) *hostmem.Machine {
	t.Helper()
	m, err := discovered(t, f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func discovered(t *testing.T, f files) (*hostmem.Machine, error) {
	t.Helper()
	return hostmem.Discover(f.write(t))
}

// write makes them files, and returns their root.
func (f files) write(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range f {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	v1Limitless = "9223372036854771712\n"

	meminfo32G = `MemTotal:       33554432 kB
MemFree:         1048576 kB
MemAvailable:   25165824 kB
SwapCached:         1024 kB
SwapTotal:       2097152 kB
SwapFree:        2094080 kB
`
)

// bare is a machine without cgroups: 32 GiB, 24 GiB available, 2 MiB swapped out.
var bare = files{
	"proc/meminfo":        meminfo32G,
	"proc/self/mountinfo": "22 27 0:21 / /proc rw,relatime - proc proc rw\n",
}

// pureV2 is the layout of a current distribution; the agent is a service in a slice.
var pureV2 = bare.with(files{
	"proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
	"proc/self/cgroup":    "0::/system.slice/plimsoll.service\n",

	"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids\n",
	"sys/fs/cgroup/memory.stat":        statV2,

	"sys/fs/cgroup/system.slice/memory.max":                      "max\n",
	"sys/fs/cgroup/system.slice/plimsoll.service/memory.max":     "2147483648\n",
	"sys/fs/cgroup/system.slice/plimsoll.service/memory.current": "1992294400\n",
	"sys/fs/cgroup/system.slice/plimsoll.service/memory.stat":    statV2,

	"sys/fs/cgroup/plimsoll/memory.max":          "8589934592\n",
	"sys/fs/cgroup/plimsoll/memory.current":      "4294967296\n",
	"sys/fs/cgroup/plimsoll/memory.swap.current": "53477376\n",
	"sys/fs/cgroup/plimsoll/memory.stat":         statV2,
	"sys/fs/cgroup/plimsoll/h1/memory.max":       "max\n",
})

// 1,200 MiB of file pages, 60 MiB dirty and 40 MiB under writeback: 1,100 MiB clean.
const statV2 = `anon 734003200
file 1363148800
shmem 104857600
file_dirty 62914560
file_writeback 41943040
swapcached 1048576
inactive_anon 0
active_anon 838860800
inactive_file 838860800
active_file 419430400
unevictable 0
some_newer_field_of_2031 12 34
workingset_refault_file 99
`

// hybrid is the layout with the memory controller on v1 and a v2 tree beside it.
var hybrid = bare.with(files{
	"proc/self/mountinfo": `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`,
	"proc/self/cgroup": "9:name=systemd:/\n4:memory:/agents/one\n1:cpu,cpuacct:/\n0::/\n",

	"sys/fs/cgroup/unified/cgroup.controllers": "\n",

	"sys/fs/cgroup/memory/memory.limit_in_bytes":            v1Limitless,
	"sys/fs/cgroup/memory/memory.stat":                      statV1,
	"sys/fs/cgroup/memory/agents/memory.limit_in_bytes":     "4294967296\n",
	"sys/fs/cgroup/memory/agents/memory.usage_in_bytes":     "1992294400\n",
	"sys/fs/cgroup/memory/agents/memory.stat":               statV1,
	"sys/fs/cgroup/memory/agents/one/memory.limit_in_bytes": v1Limitless,
})

// The subtree holds what statV2 holds, and 50 MiB swapped out; the cgroup itself little.
const statV1 = `cache 4096
rss 8192
shmem 0
dirty 0
swap 0
inactive_file 0
active_file 4096
hierarchical_memory_limit 9223372036854771712
total_cache 1363148800
total_rss 734003200
total_shmem 104857600
total_dirty 62914560
total_writeback 41943040
total_swap 52428800
total_inactive_file 838860800
total_active_file 419430400
total_workingset_refault_file 99
`
