package simcmd

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/sim"
)

// command runs plimsoll sim as the binary does.
func command(words ...string) (status int, out, said string) {
	var stdout, stderr bytes.Buffer
	status = cli.Run(context.Background(), append([]string{"sim"}, words...), cli.Options{
		Stdout: &stdout, Stderr: &stderr, Extra: []*cobra.Command{Command()},
	})
	return status, stdout.String(), stderr.String()
}

// Every mistake has its status and what to try.
func TestMistakes(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.txt")
	if err := os.WriteFile(broken, []byte("no scenario\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]struct{ says, try string }{
		"faults --seeds 0":         {"--seeds 0 --jobs", "plimsoll sim faults --help"},
		"faults --hosts -1":        {"--hosts -1", "plimsoll sim faults --help"},
		"faults --seeds many":      {"--seeds many: it takes a whole number", "plimsoll sim faults --help"},
		"replay x":                 {`"x" is no seed: write a whole number`, "plimsoll sim replay --help"},
		"replay 1 --replicas 1000": {"--replicas 1000", "plimsoll sim replay --help"},
		"replay":                   {"SEED is missing", "plimsoll sim replay --help"},
		"scenario none.txt":        {"read the scenario: open none.txt", "plimsoll sim scenario --help"},
		"scenario " + broken:       {"broken.txt:1", "plimsoll sim scenario --help"},
		"density --seconds 0":      {"--seconds 0", "plimsoll sim density --help"},
	} {
		status, _, said := command(strings.Fields(words)...)
		if status != cli.ExitUsage || !strings.Contains(said, want.says) || !strings.Contains(said, "\ntry: "+want.try+"\n") {
			t.Errorf("%s: status %d, said %q, want %+v", words, status, said, want)
		}
	}
}

// Whoever is told that an invariant did not hold is told how to see it.
func TestViolationSaysItsReplay(t *testing.T) {
	var out bytes.Buffer
	c := &cobra.Command{}
	c.SetOut(&out)
	err := show(c, sim.Summary{Violations: 1, Failed: []sim.Failed{{Seed: 7, Replay: "plimsoll sim replay 7 --callers 1"}}})
	failure, ok := errors.AsType[*cli.Failure](err)
	if !ok || failure.Status != 1 || failure.Try != "plimsoll sim replay 7 --callers 1" {
		t.Errorf("%v", err)
	}
	if err := show(c, sim.Summary{}); err != nil {
		t.Error(err)
	}
}
