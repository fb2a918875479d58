package hostmem

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// Hierarchy is one mounted tree of cgroups. The zero value is one that is not mounted.
type Hierarchy struct {
	Version int    // 1 or 2; 0 where there is none
	Mount   string // directory where it is mounted, the injected root included
	Top     string // the cgroup that Mount shows: "/" but in a container without its own namespace
	root    bool   // Mount shows the kernel's own root, above which there is nothing, and which has no limit
}

// Mounted says whether there is such a hierarchy at all.
func (h Hierarchy) Mounted() bool { return h.Version != 0 }

// Dir returns the directory of a cgroup. A path that is not below Top was written by
// someone who sees another namespace; it is taken as relative to what is mounted.
func (h Hierarchy) Dir(cgroup string) string {
	p := clean(cgroup)
	if h.Top != "/" {
		if below, ok := strings.CutPrefix(p, h.Top); ok && (below == "" || below[0] == '/') {
			p = below
		}
	}
	if p == "" || p == "/" {
		return h.Mount
	}
	return strings.TrimSuffix(h.Mount, "/") + p
}

// clean makes a path absolute. It allocates nothing for one that is so already.
func clean(cgroup string) string {
	if !strings.HasPrefix(cgroup, "/") {
		cgroup = "/" + cgroup
	}
	return path.Clean(cgroup)
}

// Below says whether a cgroup is another or in it.
func Below(cgroup, above string) bool {
	return strings.HasPrefix(clean(cgroup)+"/", clean(above)+"/")
}

// chain returns a cgroup and its ancestors as far as they can be seen, itself first.
func (h Hierarchy) chain(cgroup string) []string {
	var all []string
	for p := clean(cgroup); ; p = path.Dir(p) {
		all = append(all, p)
		if p == "/" || h.Dir(p) == h.Mount {
			return all
		}
	}
}

// Mount is one line of mountinfo.
type Mount struct {
	Root   string // what part of the file system is mounted
	Point  string
	FSType string
	Super  []string // options of the file system itself; v1 names its controllers there
}

// ParseMountinfo reads /proc/self/mountinfo:
//
//	35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
//	41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
//
// The optional fields before the lone hyphen vary in number. Lines that do not look like
// this are passed over.
func ParseMountinfo(text []byte) []Mount {
	var all []Mount
	for line := range bytes.Lines(text) {
		head, tail, ok := strings.Cut(string(bytes.TrimSpace(line)), " - ")
		left, right := strings.Fields(head), strings.Fields(tail)
		if !ok || len(left) < 6 || len(right) < 1 {
			continue
		}
		m := Mount{Root: unescape(left[3]), Point: unescape(left[4]), FSType: right[0]}
		if len(right) > 2 {
			m.Super = strings.Split(right[2], ",")
		}
		all = append(all, m)
	}
	return all
}

// unescape undoes mountinfo's octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// Membership is the cgroup of a process in one hierarchy.
type Membership struct {
	Controllers []string // empty for the unified hierarchy
	Path        string
}

// ParseCgroup reads /proc/<pid>/cgroup:
//
//	4:memory:/system.slice/plimsoll.service
//	2:cpu,cpuacct:/
//	1:name=systemd:/system.slice/plimsoll.service
//	0::/system.slice/plimsoll.service
//
// A path may hold colons of its own.
func ParseCgroup(text []byte) []Membership {
	var all []Membership
	for line := range bytes.Lines(text) {
		part := strings.SplitN(strings.TrimRight(string(line), "\n"), ":", 3)
		if len(part) < 3 || !strings.HasPrefix(part[2], "/") {
			continue
		}
		m := Membership{Path: path.Clean(part[2])}
		if part[1] != "" {
			m.Controllers = strings.Split(part[1], ",")
		}
		all = append(all, m)
	}
	return all
}

// pathIn returns the path in the hierarchy of a v1 controller, or in the unified one
// for "", and "/" where nothing is said: every process is at least in the root.
func pathIn(all []Membership, controller string) string {
	for _, m := range all {
		if controller == "" && len(m.Controllers) == 0 || slices.Contains(m.Controllers, controller) {
			return m.Path
		}
	}
	return "/"
}

// widest returns the mount that matches and shows most of its hierarchy. Containers
// often see it twice, once cut down to themselves.
func widest(all []Mount, match func(Mount) bool) (Mount, bool) {
	var best Mount
	found := false
	for _, m := range all {
		if match(m) && (!found || len(m.Root) < len(best.Root)) {
			best, found = m, true
		}
	}
	return best, found
}
