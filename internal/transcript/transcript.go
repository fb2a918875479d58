// Package transcript runs tests that are written as text: a command per line, and below
// it, indented, everything that must be true afterwards.
//
//	# why this must be so
//	release a 7
//	  released a/7
//	  open 0 MiB in 0
//
// Lines that start with # and blank lines are kept as they are. `go test -update` writes
// the answers anew; the diff is then the review. For tests alone, one at a time a file.
package transcript

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// Updating says whether files with expected answers are to be written anew.
func Updating() bool { return *update }

const indent = "  "

// Run runs every file that the pattern matches, each as a test of its own, with a state
// of its own: start returns the function that takes a command and returns what follows.
func Run(t *testing.T, pattern string, start func(t *testing.T) func(command string) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcript matches %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(string(want), start(t))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// replay returns the text with the answers that its commands get now.
func replay(text string, do func(string) string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, indent) {
			continue // an earlier answer
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for answer := range strings.Lines(do(line)) {
			out.WriteString(indent + strings.TrimRight(answer, "\n") + "\n")
		}
	}
	return out.String()
}

// Line is a command taken apart: its verb, its words, and its settings (name=value).
type Line struct {
	Verb  string
	Words []string
	Set   map[string]string // name -> value
}

// Parse takes a command apart.
func Parse(command string) Line {
	l := Line{Set: map[string]string{}}
	for i, word := range strings.Fields(command) {
		name, value, set := strings.Cut(word, "=")
		switch {
		case i == 0:
			l.Verb = word
		case set:
			l.Set[name] = value
		default:
			l.Words = append(l.Words, word)
		}
	}
	return l
}

// Has says whether a word is among the command's.
func (l Line) Has(word string) bool { return slices.Contains(l.Words, word) }
