package observe_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/observe"
)

// proc are the files of one process of a fixture that started so many ticks after boot.
func proc(files map[string]string, pid int, start uint64, command string) {
	at := fmt.Sprintf("proc/%d/", pid)
	files[at+"stat"] = fmt.Sprintf("%d (x) S 1 %d %d 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0\n", pid, pid, pid, start)
	files[at+"status"] = "RssAnon:\t 2048 kB\n"
	files[at+"cmdline"] = command + "\x00"
	files[at+"cgroup"] = "0::/elsewhere\n"
}

// What the rules call a sandbox and nobody knows is found: by its cgroup, or its process; what is
// known by either, empty, or the observer's own is not.
func TestUnknown(t *testing.T) {
	const dir = "sys/fs/cgroup/machine/"
	more := map[string]string{
		dir + "stray/cgroup.procs": "301\n302\n", dir + "known/cgroup.procs": "303\n",
		dir + "tracked/cgroup.procs": "304\n", dir + "empty/cgroup.procs": "",
		dir + "mine/cgroup.procs": fmt.Sprintf("%d\n", os.Getpid()), dir + "base-1/cgroup.procs": "305\n",
	}
	for i, command := range []string{"vm", "helper", "vm", "vm", "vm", "vmm"} {
		proc(more, 301+i, uint64(4000-100*i), command)
	}
	held := map[string]int64{"stray": 300, "known": 1, "tracked": 1, "empty": 0, "mine": 1, "base-1": 50}
	o := observe.New("h", machine(t, held, more), observe.Rules{
		Parent: "machine", Stateful: regexp.MustCompile("^base"), Match: regexp.MustCompile("^vmm$"),
	})
	found, err := o.Unknown(func(cgroup string, pids []int) bool {
		return cgroup == "/machine/known" || slices.Contains(pids, 304)
	})
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]observe.Sighting{}
	for _, s := range found {
		byID[s.ID] = s
	}
	stray, base, tree := byID["stray"], byID["base-1"], byID["pid-306"]
	if len(found) != 3 || stray.Stateful || !base.Stateful {
		t.Errorf("%+v", found)
	}
	if stray.Resident != 300*gate.MiB || !slices.Equal(stray.PIDs, []int{301, 302}) || stray.Start != 4000 || stray.Started != 39*time.Second {
		t.Errorf("%+v", stray)
	}
	if tree.Cgroup != "" || tree.Resident != 2*gate.MiB || tree.Start != 3500 {
		t.Errorf("%+v", tree)
	}
}

// A process that runs out of gate is found on a real machine, and not once somebody knows it.
func TestUnknownRealProcess(t *testing.T) {
	m, err := hostmem.Discover("/")
	if err != nil {
		t.Skip(err)
	}
	mark := fmt.Sprintf("unknown-%d", os.Getpid())
	pid := vm(t, 16, mark)
	o := observe.New("h", m, observe.Rules{Match: regexp.MustCompile(`observed-vm .*` + mark)})
	found, err := o.Unknown(func(string, []int) bool { return false })
	if err != nil || len(found) != 1 || found[0].PIDs[0] != pid || found[0].Resident < 16*gate.MiB {
		t.Fatalf("%+v, %v", found, err)
	}
	if age := hostmem.BootTime() - found[0].Started; age < 0 || age > time.Minute {
		t.Errorf("it began %v ago", age)
	}
	found, err = o.Unknown(func(_ string, pids []int) bool { return slices.Contains(pids, pid) })
	if err != nil || len(found) != 0 {
		t.Errorf("known: %+v, %v", found, err)
	}
}
