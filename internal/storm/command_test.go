package storm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/report/reporttest"
)

// command runs plimsoll sim storm with these words.
func command(words ...string) (string, error) {
	return reporttest.Output(Command(), words...)
}

var small = []string{"--cap", "20", "--plays", "2"}

// One seed is one result, whatever is played at a time; another seed is another.
func TestOneSeedOneResult(t *testing.T) {
	run := func(words ...string) string {
		out, err := command(append(words, small...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	one := run("--jobs", "1")
	if many := run("--jobs", "8"); many != one {
		t.Errorf("one at a time:\n%s\neight:\n%s", one, many)
	}
	if other := run("--seed", "2"); other == one {
		t.Error("another seed, and the same result")
	}
	for _, name := range []string{fixedName, exponentialName, essayName, retryAfterName, sdkName} {
		if !strings.Contains(one, " "+name+" ") {
			t.Errorf("%s is not in\n%s", name, one)
		}
	}
}

// The same result is the same page; it is told what wrote it, fits a browser's window, and a storm
// in which nobody waits has one, too.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, words ...string) string {
		file := filepath.Join(dir, name)
		if _, err := command(append(words, "--report", file)...); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
	page := write("a.html", append(small, "--jobs", "1")...)
	if again := write("b.html", append(small, "--jobs", "4")...); again != page {
		t.Error("the same play, and another page")
	}
	for _, want := range []string{"storm --cap 20 --plays 2", essayName + ", 90 s", "Who waits", "Gaps between callers"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	reporttest.InBrowser(t, page)
	if calm := write("c.html", "--cap", "1", "--life", "1h", "--storm", "1s", "--plays", "1"); !strings.Contains(calm, "nobody had to wait") {
		t.Error(calm)
	}
}

func TestHelpHasExamples(t *testing.T) {
	out, err := command("--help")
	if err != nil || !strings.Contains(out, "--replicas 4 -o json") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestMistakesOfTheCommand(t *testing.T) {
	for words, want := range map[string]string{
		"--cap 0":                         "--cap 0: 1 to",
		"--life 1ms":                      "--life 1ms: from 1s",
		"--load 0":                        "--load 0: above 0",
		"--load NaN":                      "--load NaN: above 0",
		"--load +Inf":                     "--load +Inf: above 0",
		"--storm 25h":                     "--storm 25h0m0s: from 1s",
		"--deadline 0s":                   "--deadline 0s: from 1s",
		"--replicas 0":                    "--replicas 0 --plays",
		"--plays 0":                       "--plays 0",
		"--jobs 0":                        "--jobs 0",
		"--cap 10000 --life 1s --load 10": "callers in a storm, and at most",
		"--report /nowhere/a.html":        "--report /nowhere/a.html",
		"storm":                           "unknown command",
	} {
		if _, err := command(strings.Fields(words)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", words, err, want)
		}
	}
}
