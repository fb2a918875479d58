package driver_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// v2Tree is a fixture of a v2 host whose parent cgroup is there already, since plain
// directories get no control files when they are made.
func v2Tree(t *testing.T, controllers string) (root string, m *hostmem.Machine) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{
		"proc/self/mountinfo":                              "35 31 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/self/cgroup":                                 "0::/\n",
		"sys/fs/cgroup/cgroup.controllers":                 controllers,
		"sys/fs/cgroup/cgroup.subtree_control":             "cpu memory\n",
		"sys/fs/cgroup/plimsoll/cgroup.subtree_control":    "",
		"sys/fs/cgroup/plimsoll/h1/cgroup.subtree_control": "",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := hostmem.Discover(root)
	if err != nil {
		t.Fatal(err)
	}
	return root, m
}

func TestMemoryControllerIsPassedDownToTheParent(t *testing.T) {
	root, m := v2Tree(t, "cpu memory pids\n")
	d, err := driver.New(driver.Config{Machine: m, Parent: "plimsoll/h1"})
	if err != nil || len(d.Warnings()) != 0 {
		t.Fatalf("%v, warnings %q", err, d.Warnings())
	}
	for dir, want := range map[string]string{"": "cpu memory\n", "plimsoll": "+memory", "plimsoll/h1": "+memory"} {
		got, _ := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", dir, "cgroup.subtree_control"))
		if string(got) != want {
			t.Errorf("%q has %q, want %q", dir, got, want)
		}
	}
}

func TestWarningsNameTheRemedy(t *testing.T) {
	_, limitless := v2Tree(t, "cpu pids\n")
	root, blocked := v2Tree(t, "memory\n")
	if err := os.WriteFile(filepath.Join(root, "sys/fs/cgroup/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		m      *hostmem.Machine
		parent string
		want   int
	}{
		"no memory controller": {limitless, "plimsoll/h1", 1},
		"no cgroup to be made": {blocked, "file/h1", 2}, // no limit, and then no cgroup at all
	} {
		d, err := driver.New(driver.Config{Machine: tt.m, Parent: tt.parent})
		if err != nil {
			t.Fatal(err)
		}
		got := d.Warnings()
		if len(got) != tt.want {
			t.Errorf("%s: %q", name, got)
		}
		for _, w := range got {
			if !strings.Contains(w, "Remedy: ") {
				t.Errorf("%s: no remedy in %q", name, w)
			}
		}
	}
}

func TestConfig(t *testing.T) {
	_, m := v2Tree(t, "memory\n")
	for name, c := range map[string]driver.Config{
		"no machine":     {},
		"root as parent": {Machine: m, Parent: "/../"},
		"logs in a file": {Machine: m, Parent: "plimsoll/h1", Dir: "/dev/null/logs"},
	} {
		if _, err := driver.New(c); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	d, err := driver.New(driver.Config{Machine: m})
	if err != nil || !strings.HasPrefix(d.Parent(), "/plimsoll/") {
		t.Errorf("default parent %s, %v", d.Parent(), err)
	}
	if out, errs := d.Logs("s"); out != "" || errs != "" {
		t.Errorf("logs %q, %q without a directory", out, errs)
	}
}

func TestExitInWords(t *testing.T) {
	for want, e := range map[string]driver.Exit{
		"exit status 7":                                 {Code: 7},
		"ended, status unknown":                         {Unknown: true},
		"killed by signal 15 (terminated)":              {Code: 143, Signal: syscall.SIGTERM},
		"exit status 1, out of memory at its own limit": {Code: 1, OOM: true, OwnLimit: true},
		"exit status 1, out of memory of the host":      {Code: 1, OOM: true},
		"exit status 0: " + driver.ErrDetached.Error():  {Err: driver.ErrDetached},
	} {
		if got := e.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
