package storetest

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
)

// next is a migration that only adds, in words that both databases know.
const next = `-- oldest_program: %d
ALTER TABLE admissions ADD COLUMN note text NOT NULL DEFAULT '';
ALTER TABLE pools ADD COLUMN weight bigint NOT NULL DEFAULT 1 CHECK (weight > 0);
CREATE TABLE notes (id bigint PRIMARY KEY, note text NOT NULL);
CREATE INDEX noted ON admissions (note) WHERE note <> '';
`

// NextRelease returns the migrations of a program that is one release newer than the one
// whose migrations dir holds; contract says that it leaves that one behind.
func NextRelease(t testing.TB, dir fs.FS, contract bool) fs.FS {
	t.Helper()
	all := Releases(t, dir, -1)
	version := len(all) + 1
	oldest := version - 1
	if contract {
		oldest = version
	}
	all[fmt.Sprintf("%04d.sql", version)] = &fstest.MapFile{Data: fmt.Appendf(nil, next, oldest)}
	return all
}

// Releases returns the migrations of the program that knew the first n of dir's; of the
// present one for -1.
func Releases(t testing.TB, dir fs.FS, n int) fstest.MapFS {
	t.Helper()
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if n < 0 {
		n = len(names)
	}
	out := fstest.MapFS{}
	for _, name := range names[:n] {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = &fstest.MapFile{Data: text}
	}
	return out
}
