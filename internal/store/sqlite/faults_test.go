package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
)

// A second process on the same file fails at once and hears who has it.
func TestOpenTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	opened(t, path, Options{})
	_, err := Open(t.Context(), path, Options{})
	mustSay(t, err, ErrInUse, "pid ", "stop that one first")
}

func TestOpenNoDirectory(t *testing.T) {
	_, err := Open(t.Context(), filepath.Join(t.TempDir(), "missing", "plimsoll.db"), Options{})
	mustSay(t, err, nil, "does not exist: make it first")
}

func TestOpenDirectoryInsteadOfFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path, Options{})
	mustSay(t, err, nil, "check that the path is a file")
}

// A user without permission is told which; root is never refused, so it cannot try.
func TestOpenNoPermission(t *testing.T) {
	if os.Getuid() == 0 {
		mustSay(t, explain("x.db")(os.ErrPermission), os.ErrPermission, "give read and write permission")
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil { // #nosec G302 -- a directory without write permission is the case
		t.Fatal(err)
	}
	_, err := Open(t.Context(), filepath.Join(dir, "plimsoll.db"), Options{})
	mustSay(t, err, os.ErrPermission, "no permission")
}

// Who asked for what is its owner's alone to read, in the write-ahead log too.
func TestFilesArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	s := opened(t, path, Options{})
	storetest.Configure(t, s, storetest.OnePool(pool.Unlimited, 5))
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", f, info.Mode(), err)
		}
	}
}

func TestOpenNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("pools: [a, b]\n", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path, Options{})
	mustSay(t, err, nil, "not a SQLite database")
}

// A page in the middle of the file is overwritten: the store does not open.
func TestOpenCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	s := opened(t, path, Options{})
	storetest.Configure(t, s, storetest.OnePool(pool.Unlimited, 5))
	for i := range 200 {
		claimed(t, s, i)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(4096 * 2); at < info.Size(); at += 4096 {
		if _, err := f.WriteAt([]byte(strings.Repeat("!", 900)), at); err != nil {
			t.Fatal(err)
		}
	}
	_, err = Open(t.Context(), path, Options{})
	mustSay(t, err, nil, "damaged", "restore a backup")
}

// A schema of the future is left alone.
func TestOpenNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	s := opened(t, path, Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	if _, err := db.Exec("INSERT INTO schema_version (version) VALUES (99)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path, Options{})
	mustSay(t, err, sqlcore.ErrNewer, "version 99")
}

// raw opens the file beside the store.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// A full disk refuses, says so, and loses nothing; with room again, writing goes on.
func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	s := opened(t, path, Options{})
	storetest.Configure(t, s, storetest.OnePool(pool.Unlimited, 5))
	claimed(t, s, 0)
	limitPages(t, s, 60)
	confirmed := 1
	var full error
	for ; full == nil && confirmed < 10_000; confirmed++ {
		_, full = s.Claim(t.Context(), newClaim(confirmed))
	}
	confirmed--
	mustSay(t, full, nil, "the disk is full", "nothing that was confirmed is lost")
	lines, err := s.Lines(t.Context())
	if err != nil || lines[0].Busy != int64(confirmed) {
		t.Errorf("%d were confirmed: %+v %v", confirmed, lines, err)
	}
	limitPages(t, s, 1<<30)
	claimed(t, s, 20_000)
	mustBeWhole(t, s, confirmed+1)
}

// The same on a real file system without room, where there may be mounted one.
func TestFileSystemFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1200k"); err != nil {
		t.Skip("no file system may be mounted here: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s := opened(t, filepath.Join(dir, "plimsoll.db"), Options{})
	storetest.Configure(t, s, storetest.OnePool(pool.Unlimited, 5))
	confirmed := 0
	var full error
	for ; full == nil && confirmed < 50_000; confirmed++ {
		_, full = s.Claim(t.Context(), newClaim(confirmed))
	}
	confirmed--
	mustSay(t, full, nil, "the disk")
	mustBeWhole(t, s, confirmed)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	claimed(t, s, 60_000)
	mustBeWhole(t, s, confirmed+1)
}

// limitPages bounds the file; the writer is idle, so that its connection may be used.
func limitPages(t *testing.T, s *Store, pages int) {
	t.Helper()
	if _, err := s.db.exec("PRAGMA max_page_count = " + itoa(pages)); err != nil {
		t.Fatal(err)
	}
}

// One caller whose row cannot be stored fails alone; those in its batch do not.
func TestOneOfABatchFails(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "plimsoll.db"), Options{})
	storetest.Configure(t, s, storetest.OnePool(pool.Unlimited, 5))
	errs := make(chan error, 20)
	for i := range 20 {
		go func() {
			claim := newClaim(i)
			if i == 7 {
				claim.Mode = "sideways" // no such mode: the schema refuses it
			}
			_, err := s.Claim(context.Background(), claim)
			errs <- err
		}()
	}
	failed := 0
	for range 20 {
		if err := <-errs; err != nil {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d of 20 failed for the fault of one", failed)
	}
	mustBeWhole(t, s, 19)
}

// The clock stands where the newest row is, though the machine's was set back (T56's kind).
func TestClockNeverGoesBack(t *testing.T) {
	path, clock := filepath.Join(t.TempDir(), "plimsoll.db"), storetest.NewClock()
	s := opened(t, path, Options{Clock: clock.Now})
	storetest.Configure(t, s, storetest.OnePool(5, 5))
	c := claimed(t, s, 1)
	clock.Advance(-3_600_000_000_000)
	if now, err := s.Now(t.Context()); err != nil || now != c.Row.PlacingAt {
		t.Errorf("an hour back: %d after %d, %v", now, c.Row.PlacingAt, err)
	}
	clock.Advance(time.Second)
	if now, err := s.Now(t.Context()); err != nil || now != c.Row.PlacingAt.Add(time.Second) {
		t.Errorf("a second later: %d after %d, %v: the clock stands still", now, c.Row.PlacingAt, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := opened(t, path, Options{Clock: clock.Now})
	if now, err := again.Now(t.Context()); err != nil || now < c.Row.PlacingAt {
		t.Errorf("after reopening: %d before %d, %v", now, c.Row.PlacingAt, err)
	}
}

// A store whose writer was never run still closes, and answers.
func TestCloseWithoutRun(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "plimsoll.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error)
	go func() { answered <- s.Ping(context.Background()) }()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-answered; !errors.Is(err, sqlcore.ErrClosed) {
		t.Errorf("a waiting call was told %v", err)
	}
}

// A closed store leaves no file open: its directory can be unmounted.
func TestCloseLeavesNothingOpen(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, filepath.Join(dir, "plimsoll.db"), Options{})
	storetest.Configure(t, s, storetest.OnePool(5, 5))
	claimed(t, s, 1)
	mustBeWhole(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, dir) {
			t.Errorf("%s is still open", target)
		}
	}
}

func mustSay(t *testing.T, err, is error, words ...string) {
	t.Helper()
	if err == nil || (is != nil && !errors.Is(err, is)) {
		t.Fatalf("got %v, want %v", err, is)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}
