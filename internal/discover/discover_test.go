package discover

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestANoteComesBack(t *testing.T) {
	dir := t.TempDir()
	want := Note{URL: "http://127.0.0.1:1", TokenFile: "/x/token", Socket: "/x/boot.sock"}
	for range 2 { // a second write replaces
		if err := want.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(dir)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if err := errors.Join(Remove(dir), Remove(dir)); err != nil {
		t.Error(err)
	}
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestADamagedNoteNamesTheRemedy(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, Name), []byte("{"), 0o600)
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "restart plimsoll up") {
		t.Error(err)
	}
}

func TestWriteFailsWhole(t *testing.T) {
	if err := (Note{}).Write(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("wrote into a directory that is not there")
	}
}

func TestDefaultDataDirIsAbsolute(t *testing.T) {
	if dir := DefaultDataDir(); !filepath.IsAbs(dir) {
		t.Error(dir)
	}
}
