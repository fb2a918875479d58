package agent

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ErrLocked says that another process has the lock.
var ErrLocked = errors.New("another process has it")

// A process that is killed while it starts a child leaves its locks to that child until this
// has become another program, so a lock that is taken is tried again for a moment.
const (
	lockWithin = time.Second
	lockPause  = 5 * time.Millisecond
)

// Lock takes a lock file, for as long as it is open: until the process ends, however it does.
// The file is made if it is not there, and never removed: whoever waits for it would hold
// another one.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockWithin); ; time.Sleep(lockPause) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if time.Now().After(deadline) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, ErrLocked)
		}
	}
}
