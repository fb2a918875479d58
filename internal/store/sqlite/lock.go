package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrInUse says that another process has the database open.
var ErrInUse = errors.New("the database is in use by another process")

// lockFile keeps other processes out for as long as this one lives. It stands beside the
// database, because closing any descriptor of the database itself would drop SQLite's own
// locks in this process. It is never deleted: whoever waits for it would hold another file.
type lockFile struct{ file *os.File }

func lockDatabase(path string) (*lockFile, error) {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || (err == nil && !info.IsDir()) {
		return nil, fmt.Errorf("store %s: the directory %s does not exist: make it first", path, dir)
	}
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("store %s: no permission to write in %s: give it to the user that runs this process (uid %d): %w", path, dir, os.Getuid(), err)
	}
	if err != nil {
		return nil, fmt.Errorf("store %s: lock file: %w", path, err)
	}
	if err := take(f); err != nil {
		return nil, errors.Join(inUse(path, f, err), f.Close())
	}
	l := &lockFile{file: f}
	if err := l.sign(); err != nil {
		return nil, errors.Join(explain(path)(err), l.release())
	}
	return l, nil
}

// A process that is killed while it starts a child leaves its locks to that child until this
// has become another program, so a lock that is taken is tried again for a moment.
const (
	lockWithin = time.Second
	lockPause  = 5 * time.Millisecond
)

func take(f *os.File) error {
	for deadline := time.Now().Add(lockWithin); ; time.Sleep(lockPause) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			return err
		}
	}
}

func inUse(path string, f *os.File, err error) error {
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("store %s: lock: %w", path, err)
	}
	holder, readErr := io.ReadAll(io.LimitReader(f, 32))
	if readErr != nil || len(holder) == 0 {
		holder = []byte("unknown")
	}
	return fmt.Errorf("store %s: %w (pid %s): stop that one first, or use PostgreSQL for several replicas",
		path, ErrInUse, strings.TrimSpace(string(holder)))
}

// sign writes the holder's pid, for the message that the next one gets.
func (l *lockFile) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(fmt.Sprintln(os.Getpid())), 0)
	return err
}

func (l *lockFile) release() error { return l.file.Close() }
