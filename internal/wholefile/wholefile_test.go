package wholefile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/wholefile"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, step := range []struct {
		text   string
		mode   fs.FileMode
		synced bool
	}{{"one", 0o600, true}, {"two", 0o644, false}, {"", 0o600, true}} {
		if err := wholefile.Write(path, []byte(step.text), step.mode, step.synced); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, err2 := os.Stat(path)
		if err != nil || err2 != nil || string(got) != step.text || info.Mode().Perm() != step.mode {
			t.Errorf("%+v: %q %v (%v %v)", step, got, info.Mode(), err, err2)
		}
	}
	left(t, dir, 1)
}

// What cannot take its place leaves what was there, and nothing beside it.
func TestWriteInVain(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(taken, []byte("x"), 0o600, true); err == nil {
		t.Error("a directory was replaced")
	}
	if err := wholefile.Write(filepath.Join(dir, "none", "a"), nil, 0o600, false); err == nil {
		t.Error("a directory was made")
	}
	left(t, dir, 1)
}

func left(t *testing.T, dir string, want int) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
		t.Errorf("left in the directory: %v (%v)", entries, err)
	}
}
