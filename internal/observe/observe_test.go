package observe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/observe"
)

// The test binary is also what is observed: a process that holds so many MiB.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "observed-vm" {
		hold(os.Args[2])
	}
	os.Exit(m.Run())
}

func hold(mb string) {
	n, _ := strconv.Atoi(mb)
	data := bytes.Repeat([]byte{1}, n<<20)
	fmt.Println("held")
	buf := make([]byte, 1)
	os.Stdin.Read(buf)
	os.Exit(int(data[0]) - 1)
}

// vm starts a process that holds so many MiB, under further arguments.
func vm(t *testing.T, mb int, args ...string) int {
	t.Helper()
	c := exec.Command("/proc/self/exe", append([]string{"observed-vm", strconv.Itoa(mb)}, args...)...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); c.Wait() })
	out.Read(make([]byte, 5))
	return c.Process.Pid
}

// The rung "observe" on this machine: real processes that nobody gave to Plimsoll are found,
// measured and sized, and are none the wiser.
func TestRealProcesses(t *testing.T) {
	m, err := hostmem.Discover("/")
	if err != nil {
		t.Skip(err)
	}
	mark := fmt.Sprintf("mark-%d", os.Getpid())
	file := filepath.Join(t.TempDir(), "vm.json")
	os.WriteFile(file, []byte(`{"boot-source": {}, "machine-config": {"vcpu_count": 2, "mem_size_mib": 1024}}`), 0o600)
	pids := map[int]string{
		vm(t, 64, mark, "-m", "512"):           "command line",
		vm(t, 16, mark, "--config-file", file): "config file",
		vm(t, 16, mark, "database"):            "",
	}
	before := map[int]string{}
	for pid := range pids {
		before[pid] = adj(t, pid)
	}
	o := observe.New("h", m, observe.Rules{
		Match: regexp.MustCompile(`observed-vm .*` + mark), Stateful: regexp.MustCompile("database"),
		Reserve: gate.DefaultReserveRule(),
	})
	r, err := o.Look(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if r.Found != 3 || r.Unsized != 1 || r.ResidentMB < 96 || r.CommittedMB < 1024+512+16 || r.Enforcement != "observe" || len(r.Notes) != 1 {
		t.Errorf("%+v", r)
	}
	if r.Sandboxes[0].ConfiguredMB != 512 || r.Sandboxes[0].ResidentMB < 64 || r.Sandboxes[0].WorkingSetMB != 512 {
		t.Errorf("the largest: %+v", r.Sandboxes[0])
	}
	for _, s := range r.Sandboxes {
		if from := pids[s.PID]; s.SizeFrom != from || s.Stateful != (from == "") {
			t.Errorf("%+v, want the size from %q", s, from)
		}
	}
	for pid, was := range before {
		if now := adj(t, pid); now != was {
			t.Errorf("pid %d: oom_score_adj was %s and is %s", pid, was, now)
		}
	}
	if ws, whole := r.Modes[0], r.Modes[1]; ws.HeldMB >= whole.HeldMB || ws.AdmittableMB < whole.AdmittableMB || ws.Mode != "working-set" || whole.Mode != "committed" {
		t.Errorf("modes %+v", r.Modes)
	}
}

func adj(t *testing.T, pid int) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// machine is a cgroup v2 machine of 32 GiB, of which 24 are available, with microVMs below
// /machine, of which each holds so many MiB.
func machine(t *testing.T, held map[string]int64, more map[string]string) *hostmem.Machine {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"proc/meminfo":                     "MemTotal: 33554432 kB\nMemFree: 1048576 kB\nMemAvailable: 25165824 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
		"proc/self/mountinfo":              "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/self/cgroup":                 "0::/\n",
		"sys/fs/cgroup/cgroup.controllers": "memory\n",
		"sys/fs/cgroup/machine/x":          "",
	}
	for name, mb := range held {
		at := "sys/fs/cgroup/machine/" + name + "/"
		files[at+"memory.stat"] = fmt.Sprintf("anon %d\nfile 20971520\nshmem 0\nactive_file 0\ninactive_file 20971520\n", mb<<20)
		files[at+"memory.max"] = strconv.Itoa(4<<30) + "\n"
		files[at+"memory.swap.current"] = "0\n"
		files[at+"cgroup.procs"] = ""
	}
	for name, text := range more {
		files[name] = text
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := hostmem.Discover(root)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The worked example of the package's comment, with T96: a sandbox's clean file cache is seen
// apart, and held against nobody.
func TestBothModesOfOneMachine(t *testing.T) {
	m := machine(t, map[string]int64{"a": 600, "b": 600, "c": 600, "d": 600}, nil)
	o := observe.New("h", m, observe.Rules{Parent: "/machine", Reserve: gate.DefaultReserveRule()})
	r, err := o.Look(time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if r.Found != 4 || r.ResidentMB != 2400 || r.CommittedMB != 4*4096 || r.FileCacheMB != 80 || r.FreeMB != 24576 || r.HeadroomMB != 1639 || r.PSISomeAvg10 != nil {
		t.Errorf("%+v", r)
	}
	want := []observe.Mode{
		{Mode: "working-set", HeldMB: 4096, UnresidentMB: 4 * 424, AdmittableMB: 21241, TypicalMB: 4096, FitsMore: 20},
		{Mode: "committed", HeldMB: 16384, UnresidentMB: 4 * 3496, AdmittableMB: 8953, TypicalMB: 4096, FitsMore: 2},
	}
	for i := range want {
		if r.Modes[i] != want[i] {
			t.Errorf("got %+v, want %+v", r.Modes[i], want[i])
		}
	}
	if s := r.Sandboxes[0]; s.ID != "a" || s.SizeFrom != "memory.max" || s.Kind != "cgroup" {
		t.Errorf("%+v", s)
	}
}

// T98: pressure that a thrashing sandbox makes inside its own limit is shown, and changes
// no figure; nothing is an alarm here.
func TestPressureIsShownAndBelievedByNobody(t *testing.T) {
	m := machine(t, map[string]int64{"a": 600}, map[string]string{
		"proc/pressure/memory": "some avg10=63.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=40.00 avg60=0.00 avg300=0.00 total=1\n",
	})
	r, err := observe.New("h", m, observe.Rules{Parent: "/machine", Reserve: gate.DefaultReserveRule()}).Look(time.Unix(0, 0))
	if err != nil || r.PSISomeAvg10 == nil || *r.PSISomeAvg10 != 63 || r.Modes[0].AdmittableMB != 24576-1639-424 || len(r.Notes) != 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// Committed may be past its line while nothing is wrong: that is what the rung is for.
func TestPastTheLine(t *testing.T) {
	held := map[string]int64{}
	for i := range 10 {
		held[fmt.Sprint("vm", i)] = 500
	}
	m := machine(t, held, nil)
	o := observe.New("h", m, observe.Rules{Parent: "machine", Reserve: gate.DefaultReserveRule(), Budget: 16 * gate.GiB, Headroom: gate.GiB})
	r, err := o.Look(time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	// 16,384 − 5,000 resident − 1,024 headroom − 10 × 3,596 unresident
	if c := r.Modes[1]; c.AdmittableMB != 0 || c.OverMB != 35960-10360 || c.FitsMore != 0 || r.BindingLimit != "budget" {
		t.Errorf("%+v under %s", c, r.BindingLimit)
	}
}

// The highest is remembered for as long as the sandbox is there.
func TestPeaks(t *testing.T) {
	m := machine(t, map[string]int64{"a": 600}, nil)
	o := observe.New("h", m, observe.Rules{Parent: "/machine", Reserve: gate.DefaultReserveRule()})
	first, err := o.Look(time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	stat := filepath.Join(m.Memory().Dir("/machine/a"), "memory.stat")
	os.WriteFile(stat, []byte(fmt.Sprintf("anon %d\n", 100<<20)), 0o644)
	r, err := o.Look(time.Unix(2, 0))
	if err != nil || r.Sandboxes[0].PeakMB != 600 || r.Sandboxes[0].ResidentMB != 100 || r.Looks != 2 || r.Peak != first.Peak || r.Peak.ResidentMB != 600 || !r.Since.Equal(first.At) {
		t.Errorf("%+v %v", r, err)
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	again, err := observe.Read(dir)
	a, _ := json.Marshal(r)
	b, _ := json.Marshal(again)
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("%s came back as %s, %v", a, b, err)
	}
	if _, err := observe.Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), observe.ErrNone.Error()) {
		t.Error(err)
	}
}

func TestRules(t *testing.T) {
	for name, tt := range map[string]struct {
		o    config.Observe
		says string
	}{
		"nothing to look for":  {config.Observe{}, "nothing says what a sandbox is"},
		"no pattern":           {config.Observe{Match: "("}, "match is no regular expression"},
		"no group for a size":  {config.Observe{Match: "x", SizePattern: "mem"}, "no one group"},
		"all of them":          {config.Observe{Match: "x", SizePattern: "mem=(.*)", CgroupParent: "/y"}, ""},
		"the parent by itself": {config.Observe{CgroupParent: "/y"}, ""},
	} {
		_, err := observe.RulesOf(&config.Host{Observe: tt.o})
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Sizes as qemu, kvmtool and a pattern of one's own have them.
func TestSizesOnCommandLines(t *testing.T) {
	for line, want := range map[string]int64{
		"qemu-system-x86_64 -enable-kvm -m 4096 -smp 2": 4096, "qemu -m 4G": 4096, "qemu -m size=2G,slots=2": 2048,
		"lkvm run --mem 512": 512, "qemu --memory=1024M x": 1024, "qemu -machine q35": 0, "x -m 0": 0, "x -m 99999999999999": 0,
		"x -m 512MiB": 512,
	} {
		proc := map[string]string{
			"proc/7/stat": "7 (vm) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n", "proc/7/status": "RssAnon: 1024 kB\n",
			"proc/7/cmdline": strings.ReplaceAll(line, " ", "\x00") + "\x00", "proc/7/cgroup": "0::/\n",
		}
		m := machine(t, nil, proc)
		r, err := observe.New("h", m, observe.Rules{Match: regexp.MustCompile("."), Reserve: gate.DefaultReserveRule()}).Look(time.Unix(0, 0))
		if err != nil || r.Found != 1 || r.Sandboxes[0].ConfiguredMB != want {
			t.Errorf("%s: %+v %v", line, r.Sandboxes, err)
		}
	}
}
