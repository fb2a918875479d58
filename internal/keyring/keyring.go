// Package keyring keeps the ticket keys of a control plane in one file outside the store, the
// same for every replica: it reads the file, changes it as a whole, and tells a process when
// it has changed. What a keyring is and which step of a rotation comes next is decided by
// package ticket.
//
//	Open ─▶ Reader ── Watch ─▶ every good change, once; every broken one as an error, once
//	Change: lock ─ read ─ step ─ write beside ─ sync ─ rename
//
// Change may be called by any number of processes at once. A Reader is not safe for
// concurrent use.
package keyring

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll-project/plimsoll/ticket"
)

// WatchEvery is how often a file is looked at.
const WatchEvery = time.Second

// NewRoot makes a root of a fresh secret. Its name is its own: two keyrings that were made
// apart share no name, so that one is never taken for the other.
func NewRoot(state ticket.State, now time.Time) (ticket.Root, error) {
	secret := make([]byte, 32)
	rand.Read(secret)
	id := "k" + now.UTC().Format("20060102") + "-" + strings.ToLower(rand.Text()[:5])
	return ticket.NewRoot(id, state, secret)
}

// Reader reads one keys file again and again.
type Reader struct {
	path string
	seen stamp // of the file that was read last, good or not
}

// stamp tells one state of a file from another.
type stamp struct {
	inode    uint64
	size     int64
	modified time.Time
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s
}

// Open reads a keys file. The error is fs.ErrNotExist where there is none.
func Open(path string) (*Reader, ticket.Keyring, error) {
	r := &Reader{path: path}
	ring, _, err := r.Changed()
	return r, ring, err
}

// Changed reads the file if it is another than last time; ok is false when it is not. An
// error is told once: as long as the file stays as it is there is nothing new to say.
func (r *Reader) Changed() (ring ticket.Keyring, ok bool, err error) {
	info, err := os.Stat(r.path)
	if err != nil {
		gone := r.seen == stamp{size: -1}
		r.seen = stamp{size: -1}
		if gone {
			return ring, false, nil
		}
		return ring, false, fmt.Errorf("read the ticket keys: %w", err)
	}
	if stampOf(info) == r.seen {
		return ring, false, nil
	}
	r.seen = stampOf(info) // before it is read: a change in between is seen next time
	ring, err = read(r.path)
	return ring, err == nil, err
}

func read(path string) (ticket.Keyring, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return ticket.Keyring{}, fmt.Errorf("read the ticket keys: %w", err)
	}
	ring, err := ticket.ParseKeyring(data)
	if err != nil {
		return ticket.Keyring{}, fmt.Errorf("read the ticket keys in %s: %w", path, err)
	}
	return ring, nil
}

// Watch tells of every change until ctx ends: of the keys, or why they could not be read.
// Those that were read before stay good then.
func (r *Reader) Watch(ctx context.Context, tell func(ticket.Keyring, error)) {
	tick := time.NewTicker(WatchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if ring, ok, err := r.Changed(); ok || err != nil {
			tell(ring, err)
		}
	}
}

// Exposed says how a keys file may be read by more than its owner and group; "" when not.
func Exposed(path string) string {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o007 == 0 {
		return ""
	}
	return fmt.Sprintf("%s can be read by every user of this machine, and whoever reads it can make tickets; chmod 600 it", path)
}

// Create makes the file with one signing root, only if there is none: of several who do so at
// once, one does. It returns what the file holds then.
func Create(path string, now time.Time) (ticket.Keyring, error) {
	root, err := NewRoot(ticket.Signing, now)
	if err != nil {
		return ticket.Keyring{}, err
	}
	ring, err := ticket.NewKeyring(root)
	if err != nil {
		return ticket.Keyring{}, err
	}
	temp, err := writeBeside(path, ring.Dated(now), nil)
	if err != nil {
		return ticket.Keyring{}, err
	}
	defer os.Remove(temp)
	if err := os.Link(temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return ticket.Keyring{}, fmt.Errorf("write %s: %w", path, err)
	}
	if err := syncDir(path); err != nil {
		return ticket.Keyring{}, err
	}
	return read(path)
}

// Change replaces the file with what step makes of it, all of it or nothing, while no other
// Change runs. The file keeps its owner and mode.
func Change(path string, step func(ticket.Keyring) (ticket.Keyring, error)) (ticket.Keyring, error) {
	path, err := filepath.EvalSymlinks(path) // the file itself is replaced, not a link to it
	if err != nil {
		return ticket.Keyring{}, fmt.Errorf("read the ticket keys: %w", err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return ticket.Keyring{}, err
	}
	defer lock.Close()
	ring, err := read(path)
	if err != nil {
		return ring, err
	}
	next, err := step(ring)
	if err != nil {
		return ring, err
	}
	return next, replace(path, next)
}

// lockDir locks the file's directory, so that no lock file is left beside the keys. It waits:
// a change takes no longer than a write.
func lockDir(path string) (*os.File, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("lock the ticket keys: %w", err)
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		dir.Close()
		return nil, fmt.Errorf("lock %s: %w", dir.Name(), err)
	}
	return dir, nil
}

func replace(path string, ring ticket.Keyring) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	temp, err := writeBeside(path, ring, info)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(path)
}

// writeBeside writes and syncs a temporary file: a ticket minted under a key that a crash
// took back would be refused as forged. Like is the file that it is to replace.
func writeBeside(path string, ring ticket.Keyring, like fs.FileInfo) (string, error) {
	data, err := ring.EncodeFile()
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return "", fmt.Errorf("write %s: %w; its directory must be writable, and have room", path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, sameAs(f, like), f.Sync(), f.Close()); err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("write %s: %w; its directory must be writable, and have room", path, err)
	}
	return f.Name(), nil
}

// sameAs gives a new file the owner and the mode of the one that it replaces: a replica runs
// as another user than the operator who rotates.
func sameAs(f *os.File, like fs.FileInfo) error {
	if like == nil {
		return nil
	}
	sys, ok := like.Sys().(*syscall.Stat_t)
	if mine, err := f.Stat(); ok && err == nil {
		if own, ok := mine.Sys().(*syscall.Stat_t); ok && (own.Uid != sys.Uid || own.Gid != sys.Gid) {
			if err := f.Chown(int(sys.Uid), int(sys.Gid)); err != nil {
				return fmt.Errorf("keep its owner: %w", err)
			}
		}
	}
	return f.Chmod(like.Mode().Perm())
}

func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
