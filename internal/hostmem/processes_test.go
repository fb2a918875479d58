package hostmem_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// process writes the two files of one process with mb MiB of anonymous memory.
func process(pid, parent, session, mb int) files {
	return files{
		fmt.Sprintf("proc/%d/stat", pid): fmt.Sprintf(
			"%d (a) b) S %d %d %d 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0\n", pid, parent, pid, session, pid*10),
		fmt.Sprintf("proc/%d/status", pid): fmt.Sprintf("RssAnon:\t%d kB\nRssShmem:\t0 kB\nVmSwap:\t1024 kB\n", mb*1024),
	}
}

// 100 leads a session and has a child 101, which has a child 102 in a session of its own;
// 103 is of the session but was left by its parent. 200 is somebody else.
func table(t *testing.T) *hostmem.Machine {
	tree := bare
	for _, p := range [][4]int{{100, 1, 100, 10}, {101, 100, 100, 20}, {102, 101, 102, 40}, {103, 1, 100, 80}, {200, 1, 200, 160}} {
		tree = tree.with(process(p[0], p[1], p[2], p[3]))
	}
	return tree.discover(t)
}

func TestTree(t *testing.T) {
	procs, err := table(t).Processes()
	if err != nil {
		t.Fatal(err)
	}
	for pid, want := range map[int][]int{100: {100, 101, 102, 103}, 101: {101, 102}, 102: {102}, 7: {}, 0: {}, -1: {}} {
		got := map[int]bool{}
		for _, p := range procs.Tree(pid) {
			got[p.PID] = true
		}
		if pids := slices.Sorted(maps.Keys(got)); !slices.Equal(pids, want) {
			t.Errorf("tree of %d is %v, want %v", pid, pids, want)
		}
	}
}

func TestResidentTree(t *testing.T) {
	m := table(t)
	got, err := m.ResidentTree(100)
	if err != nil || got.Bytes != 154*gate.MiB || got.Swapped != 4*gate.MiB {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := m.ResidentProcess(100); err != nil || got.Bytes != 11*gate.MiB {
		t.Errorf("alone: %+v, %v", got, err)
	}
	if _, err := m.ResidentTree(7); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
}

func TestStartTime(t *testing.T) {
	m := table(t)
	if got, err := m.StartTime(101); err != nil || got != 1010 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := m.StartTime(7); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
}

func TestMemoryCannotHideBehindADeadMainThread(t *testing.T) {
	m := bare.with(process(100, 1, 100, 10)).with(files{
		"proc/100/status":          "Name:\tx\nState:\tZ (zombie)\n",
		"proc/100/task/100/status": "Name:\tx\nState:\tZ (zombie)\n",
		"proc/100/task/101/status": "Name:\tx\nRssAnon:\t2048 kB\n",
	}).discover(t)
	if got, err := m.ResidentTree(100); err != nil || got.Bytes != 2*gate.MiB {
		t.Errorf("got %+v, %v", got, err)
	}
}
