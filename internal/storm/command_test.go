package storm

import (
	"bytes"
	"strings"
	"testing"
)

// command runs plimsoll sim storm with these words.
func command(words ...string) (string, error) {
	c := Command()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&bytes.Buffer{})
	c.SetArgs(words)
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.Execute()
	return out.String(), err
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
		"storm":                           "unknown command",
	} {
		if _, err := command(strings.Fields(words)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", words, err, want)
		}
	}
}
