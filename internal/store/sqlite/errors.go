package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
)

var errCorrupt = errors.New("the database is damaged")

// remedies say what to do about an error: primary result code -> advice.
var remedies = map[int]string{
	lib.SQLITE_BUSY:     "another program keeps the file locked: close it (an open sqlite3 shell, a backup)",
	lib.SQLITE_CORRUPT:  "the database is damaged: stop, keep a copy, and restore a backup or run sqlite3's .recover",
	lib.SQLITE_NOTADB:   "the file is not a SQLite database: check the path",
	lib.SQLITE_CANTOPEN: "the file cannot be opened: check that the path is a file and that this user may read and write it",
	lib.SQLITE_READONLY: "the file or its directory is read-only: give write permission on both to the user that runs this process",
	lib.SQLITE_PERM:     "no permission: give read and write permission to the user that runs this process",
	lib.SQLITE_FULL:     "the disk is full: nothing that was confirmed is lost, and writing goes on as soon as there is room",
	lib.SQLITE_IOERR:    "the disk failed to read or write: check the disk and the kernel's log",
}

// explain adds to an error what it means and what to do.
func explain(path string) func(error) error {
	return func(err error) error {
		advice, known := remedies[code(err)]
		switch {
		case errors.Is(err, errCorrupt):
			advice, known = remedies[lib.SQLITE_CORRUPT], true
		case errors.Is(err, syscall.ENOSPC):
			advice, known = remedies[lib.SQLITE_FULL], true
		case errors.Is(err, fs.ErrPermission):
			advice, known = remedies[lib.SQLITE_PERM], true
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sqlcore.ErrClosed) {
			return err
		}
		if known {
			return fmt.Errorf("store %s: %s: %w", path, advice, err)
		}
		return fmt.Errorf("store %s: %w", path, err)
	}
}

// code is an error's primary result code, zero for none.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// kind tells what an error means for a batch. A full disk may still have room for one.
func kind(err error, committing bool) sqlcore.Kind {
	if committing {
		return sqlcore.Fatal
	}
	switch code(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return sqlcore.Retry
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_FULL, lib.SQLITE_TOOBIG, lib.SQLITE_MISMATCH:
		return sqlcore.Split
	}
	return sqlcore.Fatal
}
