package workload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A second has the most that was seen in it, one without a look what the last look saw, and a
// peak between two looks lies where the highest look was.
func TestRead(t *testing.T) {
	runs := write(t, "runs.csv", "peak_mib,run,lifetime_ms\n40.5,a,5100\n10,b,900\n")
	memory := write(t, "memory.csv", "run,t_ms,resident_mib\na,0,1\na,1100,20\na,1900,10\nb,0,7\na,4000,30\na,5200,0\n")
	got, err := Read(runs, memory)
	if err != nil {
		t.Fatal(err)
	}
	want := []Run{
		{Name: "a", Peak: gate.Bytes(40.5 * float64(gate.MiB)), Resident: []gate.Bytes{1 * gate.MiB, 20 * gate.MiB, 20 * gate.MiB, 20 * gate.MiB, gate.Bytes(40.5 * float64(gate.MiB)), 30 * gate.MiB}},
		{Name: "b", Peak: 10 * gate.MiB, Resident: []gate.Bytes{10 * gate.MiB}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %v\nwant %v", got, want)
	}
}

// One file of memory does for the runs of several; and spreadsheets write a byte order mark.
func TestReadPartOfAFile(t *testing.T) {
	runs := write(t, "runs.csv", "\uFEFFrun,lifetime_ms,peak_mib\na,1000,5\n")
	memory := write(t, "memory.csv", "\uFEFFrun,t_ms,resident_mib\nc,5000,1\na,0,5\nc,0,what\n")
	got, err := Read(runs, memory)
	if err != nil || len(got) != 1 || got[0].Name != "a" || len(got[0].Resident) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// Each mistake in a file is told with its line.
func TestReadMistakes(t *testing.T) {
	const goodRuns, goodMemory = "run,lifetime_ms,peak_mib\na,2000,5\n", "run,t_ms,resident_mib\na,0,5\n"
	for _, c := range []struct{ runs, memory, want string }{
		{"", goodMemory, "runs.csv: it is empty"},
		{"run,life,peak_mib\n", goodMemory, `runs.csv:1: there is no column "lifetime_ms"`},
		{"run,lifetime_ms,peak_mib\n", goodMemory, "runs.csv: no runs in it; write one in each line"},
		{goodRuns + "b,1.5,3\n", goodMemory, `runs.csv:3: lifetime_ms "1.5"`},
		{goodRuns + "b,0,3\n", goodMemory, "runs.csv:3: lifetime_ms 0"},
		{goodRuns + "b,-4,3\n", goodMemory, `runs.csv:3: lifetime_ms "-4"`},
		{goodRuns + "b,99999999999,3\n", goodMemory, "a week"},
		{goodRuns + "b,10,NaN\n", goodMemory, `runs.csv:3: peak_mib "NaN"`},
		{goodRuns + "b,10,-1\n", goodMemory, `runs.csv:3: peak_mib "-1"`},
		{goodRuns + "a,10,1\n", goodMemory, `runs.csv:3: run "a": give each run one row`},
		{goodRuns + "b,10\n", goodMemory, "line 3"},
		{goodRuns, "run,t_ms,resident_mib\nc,0,5\nc,1000,5\n", `memory.csv: none of its 2 rows is of a run among the runs, as "a" is: name the runs in both files alike`},
		{goodRuns + "b,1000,5\n", goodMemory + "c,0,5\n", `memory.csv: no row of run "b": write what was resident of it, or leave it out`},
		{goodRuns, "run,t_ms,resident_mib\n", `memory.csv: no row of run "a"`},
		{goodRuns, goodMemory + "a,900,many\n", `memory.csv:3: resident_mib "many"`},
		{goodRuns, "run,t_ms,resident_mib\na,900,5\na,800,5\n", "memory.csv:3: t_ms 800 of run \"a\" comes after 900"},
		{goodRuns + "b,1000,5\n", goodMemory + "b,7000,5\n", `memory.csv: no sample of run "b" within its life of 1000 ms: t_ms counts from its start`},
	} {
		_, err := Read(write(t, "runs.csv", c.runs), write(t, "memory.csv", c.memory))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("runs %q, memory %q: %v, want %s", c.runs, c.memory, err, c.want)
		}
	}
	_, err := Read(filepath.Join(t.TempDir(), "none.csv"), "")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.csv: no such file or directory: name a CSV file that can be read") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Whatever two files say, they are refused or are runs: each as long as its life, and its peak is
// the most that it held.
func FuzzRead(f *testing.F) {
	f.Add("run,lifetime_ms,peak_mib\na,5100,40.5\nb,900,10\n", "run,t_ms,resident_mib\na,0,1\na,1100,20\nb,0,7\na,4000,30\n")
	f.Add("\uFEFFpeak_mib,run,lifetime_ms\n1e3,\"a,b\",1\n", "run,t_ms,resident_mib\n\"a,b\",0,2e3\n")
	f.Fuzz(func(t *testing.T, runsText, memoryText string) {
		runs, err := Read(write(t, "runs.csv", runsText), write(t, "memory.csv", memoryText))
		if err != nil {
			return
		}
		for _, r := range runs {
			if r.Name == "" || len(r.Resident) == 0 || slices.Max(r.Resident) != r.Peak || slices.Min(r.Resident) < 0 {
				t.Errorf("%q, %d s, peak %s of %s", r.Name, len(r.Resident), r.Peak, slices.Max(r.Resident))
			}
		}
	})
}
