package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/stage"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// The first example of README.md is a program. It is run as it stands there, against a real replica.
func TestREADME(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source := goBlock.FindSubmatch(text)
	if source == nil {
		t.Fatal("README.md has no example")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, source[1], 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := stage.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &player{t: t, note: s.Note()}
	p.post("/begin", stage.Beginning{Name: "held and released"}, &stage.Begun{})
	run := exec.CommandContext(t.Context(), "go", "run", file)
	run.Env = append(os.Environ(), "PLIMSOLL_URL="+p.note.Addresses[0], "PLIMSOLL_TOKEN="+p.note.Tokens["caller"], "CGO_ENABLED=0")
	out, err := run.CombinedOutput()
	if want := "admitted: boot it with the ticket plm1.…\ndone, and released\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}
