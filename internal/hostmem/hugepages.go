package hostmem

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-project/plimsoll/gate"
)

// HugePages are one size of huge pages of this machine, which are set aside from its memory for
// good and counted in a dimension of their own: "hugepages" in pages of the default size, and
// in pages of each size by the kernel's name for it, as in "hugepages-1GB".
type HugePages struct {
	Page    gate.Bytes
	Default bool
	dir     string // below /sys/kernel/mm/hugepages
	name    string // the kernel's, in cgroups' file names: 2MB, 1GB
}

const hugePagesDim = "hugepages"

// Counts says whether a dimension counts these pages.
func (h HugePages) Counts(dim string) bool {
	return dim == hugePagesDim+"-"+h.name || h.Default && dim == hugePagesDim
}

// HugePages lists the sizes that this kernel has, the smallest first; none where it has none,
// or /sys cannot be seen.
func (m *Machine) HugePages() []HugePages {
	dir := m.sys + "/kernel/mm/hugepages"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	standard, _ := read(m.proc+"/meminfo", infallible(parseHugePageSize))
	var all []HugePages
	for _, e := range entries {
		kb, isSize := strings.CutPrefix(e.Name(), "hugepages-")
		n, err := strconv.ParseInt(strings.TrimSuffix(kb, "kB"), 10, 64)
		if !isSize || err != nil || n <= 0 {
			continue
		}
		page := scaled(n, gate.KiB)
		all = append(all, HugePages{Page: page, Default: page == standard, dir: dir + "/" + e.Name(), name: hugeName(n)})
	}
	slices.SortFunc(all, func(a, b HugePages) int { return int(min(max(a.Page-b.Page, -1), 1)) })
	return all
}

// hugeName is the kernel's name of a size in kB.
func hugeName(kb int64) string {
	switch {
	case kb >= 1<<20:
		return strconv.FormatInt(kb>>20, 10) + "GB"
	case kb >= 1<<10:
		return strconv.FormatInt(kb>>10, 10) + "MB"
	}
	return strconv.FormatInt(kb, 10) + "KB"
}

// parseHugePageSize reads the default size of /proc/meminfo:
//
//	Hugepagesize:       2048 kB
func parseHugePageSize(text []byte) (size gate.Bytes) {
	eachLine(text, func(key, rest []byte) {
		if string(key) == "Hugepagesize:" {
			setBytes(&size, rest, gate.KiB)
		}
	})
	return size
}

// Free is how many pages of the pool nobody has and nobody was promised by the kernel. Those
// that it could still make by overcommitting the pool are not counted.
func (h HugePages) Free() (int64, error) {
	var counts [2]gate.Bytes
	for i, file := range [...]string{"/free_hugepages", "/resv_hugepages"} {
		n, err := read(h.dir+file, ParseValue)
		if err != nil {
			return 0, fmt.Errorf("count huge pages of %s: %w", h.name, err)
		}
		counts[i] = n
	}
	return int64(counts[0].Sub(counts[1]).Positive()), nil
}

// HeldBy is how many pages a sandbox has: by the hugetlb controller of its cgroup where there
// is one, rounded up.
//
//	hugetlb.2MB.current          (v2)
//	hugetlb.2MB.usage_in_bytes   (v1)
//
// It says false where nobody counts them.
func (m *Machine) HeldBy(cgroup string, h HugePages) (pages int64, ok bool) {
	if !m.hugetlb.Mounted() {
		return 0, false
	}
	file := "/hugetlb." + h.name + ".current"
	if m.hugetlb.Version == 1 {
		file = "/hugetlb." + h.name + ".usage_in_bytes"
	}
	held, err := read(m.hugetlb.Dir(cgroup)+file, ParseValue)
	if err != nil {
		return 0, false
	}
	return h.pages(held), true
}

// pages rounds up; a counter that says "max" is no count.
func (h HugePages) pages(b gate.Bytes) int64 {
	if h.Page <= 0 || b <= 0 {
		return 0
	}
	return int64((b-1)/h.Page) + 1
}

// HugePagesOf reads /proc/<pid>/status, which counts the pages of all sizes together:
//
//	HugetlbPages:	    2048 kB
func (m *Machine) HugePagesOf(pid int, h HugePages) int64 {
	s, err := read(m.pidFile(pid, "/status"), infallible(ParseStatus))
	if err != nil {
		return 0
	}
	return h.pages(s.Huge)
}
