package main

import (
	"os"
	"strings"
	"testing"
)

// TestRungsPage: every command that docs/rungs.md shows runs in a session's script, word for
// word.
func TestRungsPage(t *testing.T) {
	checkPage(t, "../../docs/rungs.md", "testdata/session/rungs.txtar", 15)
}

// TestHostsPage: so does every one of docs/hosts.md.
func TestHostsPage(t *testing.T) {
	checkPage(t, "../../docs/hosts.md", "testdata/session/hosts.txtar", 6)
}

// TestWorkloadPage: so does every one of docs/your-own-workload.md, and the recording script that
// it shows is the one that runs there.
func TestWorkloadPage(t *testing.T) {
	const page, script = "../../docs/your-own-workload.md", "testdata/session/workload.txtar"
	checkPage(t, page, script, 8)
	shown := between(t, page, "```bash\n", "```\n")
	if runs := between(t, script, "-- record.sh --\n", "-- bin/date --\n"); shown != runs {
		t.Errorf("%s shows\n%s\nand what runs is\n%s", page, shown, runs)
	}
}

// between is what stands in a file between two lines.
func between(t *testing.T, file, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), from)
	part, _, ends := strings.Cut(rest, to)
	if !found || !ends {
		t.Fatalf("%s: nothing between %q and %q", file, from, to)
	}
	return part
}

// checkPage wants each command of a page in a script, and so many of them at least.
func checkPage(t *testing.T, pageFile, scriptFile string, least int) {
	t.Helper()
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(scriptFile)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]bool{} // command line -> the script has it
	for line := range strings.Lines(string(script)) {
		command, isCommand := strings.CutPrefix(strings.TrimSpace(line), "exec ")
		command = strings.TrimPrefix(command, "sh as-host ")
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
				t.Errorf("%s shows %q, which no script runs", pageFile, command)
			}
		}
	}
	if shown < least {
		t.Errorf("%d commands were found on the page", shown)
	}
}
