package main

import (
	"os"
	"strings"
	"testing"
)

// TestRungsPage: every command that docs/rungs.md shows runs in a session's script, word for
// word.
func TestRungsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/rungs.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/session/rungs.txtar")
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]bool{} // command line -> the script has it
	for line := range strings.Lines(string(script)) {
		command, isCommand := strings.CutPrefix(strings.TrimSpace(line), "exec ")
		command, _, _ = strings.Cut(command, " &")
		runs[command] = isCommand
	}
	shown, inside := 0, false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inside = line == "```sh"
			continue
		}
		command, _, _ := strings.Cut(line, " > ")
		if inside && command != "" {
			shown++
			if !runs[command] {
				t.Errorf("docs/rungs.md shows %q, which no script runs", command)
			}
		}
	}
	if shown < 15 {
		t.Errorf("%d commands were found on the page", shown)
	}
}
