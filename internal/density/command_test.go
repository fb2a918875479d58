package density

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/report/reporttest"
)

// command runs plimsoll sim density with these words.
func command(words ...string) (string, error) {
	return reporttest.Output(Command(), words...)
}

// files writes two CSVs with n runs of 100 s, all at so many MiB.
func files(t *testing.T, n int, mib float64) (runs, memory string) {
	var r, m strings.Builder
	r.WriteString("run,lifetime_ms,peak_mib\n")
	m.WriteString("run,t_ms,resident_mib\n")
	for i := range n {
		fmt.Fprintf(&r, "%d,100000,%g\n", i, mib)
		for s := range 100 {
			fmt.Fprintf(&m, "%d,%d,%g\n", i, s*1000, mib)
		}
	}
	return write(t, "runs.csv", r.String()), write(t, "memory.csv", m.String())
}

// A table from files: learned from others' 200 MiB, 31,129 MiB hold 155; of the 7 by
// committed accounting nobody can say anything else.
func TestCommand(t *testing.T) {
	runs, memory := files(t, 3, 150)
	trainRuns, trainMemory := files(t, 40, 200)
	out, err := command("--runs", runs, "--memory", memory, "--train-runs", trainRuns, "--train-memory", trainMemory,
		"--seconds", "4000", "--cohorts", "1,32")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"committed", "essay", "learned", "154.", " 7.0", "learned from 40 runs, judged by 3 others: reserve 200 MiB"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// The page has the finding, the command that plays it again, and every policy; the same seed
// gives the same page, however many play at a time.
func TestReport(t *testing.T) {
	runs, memory := files(t, 3, 150)
	trainRuns, trainMemory := files(t, 40, 200)
	var pages []string
	for _, jobs := range []string{"1", "4"} {
		file := filepath.Join(t.TempDir(), "out.html")
		if _, err := command("--runs", runs, "--memory", memory, "--train-runs", trainRuns, "--train-memory", trainMemory,
			"--seconds", "4000", "--cohorts", "1,32", "--jobs", jobs, "--report", file); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, string(page))
	}
	if pages[0] != pages[1] {
		t.Error("another number of jobs gave another page")
	}
	for _, want := range []string{
		"<h1>By what was learned a host holds 155 sandboxes, by what is configured 7</h1>",
		"<code>density --cohorts 1,32 --memory " + memory, "essay", "200 MiB", "What was assumed", "What it would cost to be wrong",
	} {
		if !strings.Contains(pages[0], want) {
			t.Errorf("%q is not in\n%s", want, pages[0])
		}
	}
	reporttest.InBrowser(t, pages[0])
}

// A play that holds against learning says so on top, and one that fits nobody has a page, too.
func TestReportOfABadDay(t *testing.T) {
	r := &Result{HostMB: 1000, ConfiguredMB: 100}
	for _, name := range []string{committedPolicy, essayPolicy, learnedPolicy} {
		r.Policies = append(r.Policies, Policy{Policy: name})
	}
	ours := &r.Policies[2]
	ours.PerHost, ours.OverPhysical, ours.Most = 12, 3, 1200
	r.Learned = []Lesson{{Learned: true, Broken: true, Predicted: .4, Seen: .9, ReserveMB: 50}}
	var page bytes.Buffer
	if err := r.Page().Write(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"do not switch on this evidence", `value red">3 s`, "1,200, over", "none can", "It did break here", "learned was over physical memory in 3 of"} {
		if !strings.Contains(strings.ReplaceAll(page.String(), "\u00a0", " "), want) {
			t.Errorf("%q is not in\n%s", want, page.String())
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	out, err := command("--help")
	if err != nil || !strings.Contains(out, "--train-runs old.csv") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestMistakesOfTheCommand(t *testing.T) {
	for words, want := range map[string]string{
		"--runs a.csv":                         "--runs and --memory go together",
		"--train-runs a.csv --train-memory b":  "--train-runs: say with --runs",
		"--train-memory b":                     "--train-runs and --train-memory go together",
		"--cohorts 0":                          "--cohorts 0: a batch has",
		"--seconds 0":                          "--seconds 0",
		"--jobs 0":                             "--jobs 0",
		"--host-mb -1":                         "--host-mb -1",
		"--runs none.csv --memory none.csv":    "none.csv",
		"--configured-mb 0":                    "--configured-mb 0",
		"--configured-mb 2048 --host-mb 1024":  "--configured-mb 2048 is more than --host-mb 1024",
		"--runs a.csv --memory b --train-runs": "train-runs",
	} {
		if _, err := command(strings.Fields(words)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", words, err, want)
		}
	}
}

// Too few runs teach nothing: the prior is in force, as it would be on a host. And a class that
// became another breaks.
func TestLessons(t *testing.T) {
	for _, c := range []struct {
		train  int
		mib    float64
		judged int
		want   string
	}{
		{12, 200, 3, "the prior, since there were only 12 runs, judged by 3 others: reserve 1024 MiB"},
		{40, 200, 40, "reserve 200 MiB; 0 % of runs were to peak above it, 0 % did: within what chance explains"},
		{40, 100, 40, "reserve 100 MiB; 0 % of runs were to peak above it, 100 % did: more than chance explains"},
	} {
		runs, memory := files(t, c.judged, 200)
		trainRuns, trainMemory := files(t, c.train, c.mib)
		out, err := command("--runs", runs, "--memory", memory, "--train-runs", trainRuns, "--train-memory", trainMemory,
			"--seconds", "300", "--cohorts", "8")
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%v, and not %q:\n%s", err, c.want, out)
		}
	}
}

// Of fewer than 30 runs nobody knows what 30 would teach: nothing is said, in words or figures.
func TestFewRunsHaveNoFirstThirty(t *testing.T) {
	runs, memory := files(t, 22, 150)
	for train, want := range map[int]bool{11: false, 29: false, 30: true} {
		trainRuns, trainMemory := files(t, train, 200)
		words := []string{
			"--runs", runs, "--memory", memory, "--train-runs", trainRuns, "--train-memory", trainMemory, "--seconds", "300", "--cohorts", "8",
		}
		out, err := command(words...)
		if err != nil || strings.Contains(out, "after 30 runs alone (12 choices of them)") != want ||
			strings.Contains(out, "after 30 runs alone: not played, since there are fewer to learn from") == want {
			t.Errorf("%d to learn from: %v\n%s", train, err, out)
		}
		o := DefaultOptions()
		o.Runs, o.Memory, o.TrainRuns, o.TrainMemory, o.Seconds = runs, memory, trainRuns, trainMemory, 300
		if got := strings.Contains(text(t, result(t, o)), "after_30_runs"); got != want {
			t.Errorf("%d to learn from: after_30_runs is there: %v", train, got)
		}
	}
}

// A table of zeros has its reason beside it.
func TestNotOneFits(t *testing.T) {
	out, err := command("--host-mb", "2048", "--configured-mb", "2048", "--seconds", "300", "--cohorts", "8")
	if err != nil || !strings.Contains(out, "committed: not one fits on a host of 2048 MiB beside its headroom; give") || strings.Contains(out, "learned: not one fits") {
		t.Errorf("%v\n%s", err, out)
	}
}

// One run cannot be both learned from and judged.
func TestOneRunCannotBeParted(t *testing.T) {
	runs, memory := files(t, 1, 150)
	if _, err := command("--runs", runs, "--memory", memory); err == nil || !strings.Contains(err.Error(), "give --train-runs") {
		t.Error(err)
	}
}

// Row 8 on the real runs, where they lie beside the project (PLIMSOLL_TRACES says where else);
// fewer seconds than the command plays by default.
func TestRealRuns(t *testing.T) {
	folder := os.Getenv("PLIMSOLL_TRACES")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "traces")
	}
	o := DefaultOptions()
	o.Runs, o.Memory = filepath.Join(folder, "agent_runs.csv"), filepath.Join(folder, "agent_memory.csv")
	if _, err := os.Stat(o.Runs); err != nil {
		t.Skipf("the real runs are not here: %v", err)
	}
	o.Seconds, o.Jobs, o.Renew = 36_000, 2, time.Hour
	r := result(t, o)
	for _, p := range r.Policies {
		t.Logf("%s: %+v", p.Policy, p.Figures)
		if p.Policy == learnedPolicy && (p.PerHost < 100 || p.OverPhysical != 0) {
			t.Errorf("learned: %+v", p.Figures)
		}
	}
}
