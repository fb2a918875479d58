package keyring_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/keyring"
	"github.com/plimsoll-project/plimsoll/ticket"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func fresh(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.json")
	if _, err := keyring.Create(path, noon); err != nil {
		t.Fatal(err)
	}
	return path
}

func add(t *testing.T, path string) ticket.Keyring {
	t.Helper()
	ring, err := keyring.Change(path, func(k ticket.Keyring) (ticket.Keyring, error) {
		root, err := keyring.NewRoot(ticket.VerifyOnly, noon)
		if err != nil {
			return k, err
		}
		return k.Add(root, noon)
	})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// Of many that make the file at once one does, and all have the same keys.
func TestCreateAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	ids := make([]string, 16)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			ring, err := keyring.Create(path, noon)
			if err != nil {
				t.Error(err)
			}
			ids[i] = ring.IDs()
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || !strings.HasPrefix(id, "k20261130-") {
			t.Errorf("%q", ids)
		}
	}
	onlyKeys(t, path)
}

// onlyKeys checks that nothing is left beside the file, and that it is its owner's alone.
func onlyKeys(t *testing.T, path string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left beside the keys: %v %v", left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || keyring.Exposed(path) != "" {
		t.Errorf("%v %v", info, err)
	}
}

// No change is lost among many that come at once.
func TestChangeAtOnce(t *testing.T) {
	path := fresh(t)
	var all sync.WaitGroup
	for range ticket.MaxRoots - 1 {
		all.Go(func() { add(t, path) })
	}
	all.Wait()
	_, ring, err := keyring.Open(path)
	if err != nil || len(ring.Roots()) != ticket.MaxRoots {
		t.Errorf("%d roots: %v", len(ring.Roots()), err)
	}
	onlyKeys(t, path)
}

func TestChangeKeepsOwnerModeAndLink(t *testing.T) {
	path := fresh(t)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	add(t, link)
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is now %v %v", info, err)
	}
	info, err = os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info, err)
	}
	if sys := info.Sys().(*syscall.Stat_t); os.Getuid() == 0 && (sys.Uid != 65534 || sys.Gid != 65534) {
		t.Errorf("owner %d:%d", sys.Uid, sys.Gid)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(keyring.Exposed(path), "chmod 600") {
		t.Error("a file that all can read is not spoken of")
	}
}

// What fails leaves the file as it was.
func TestChangeThatFails(t *testing.T) {
	path := fresh(t)
	before, _ := os.ReadFile(path)
	_, err := keyring.Change(path, func(k ticket.Keyring) (ticket.Keyring, error) { return k.Drop(k.IDs()) })
	if err == nil {
		t.Error("dropped the signing root")
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("the file changed")
	}
	onlyKeys(t, path)
	if _, err := keyring.Change(filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, _, err := keyring.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A watcher tells of each change once. A file that is broken or gone is said once, and what
// was read before stays; when it is mended, that is told.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := fresh(t)
		r, ring, err := keyring.Open(path)
		if err != nil || len(ring.Roots()) != 1 {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		told := make(chan string, 10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Watch(ctx, func(k ticket.Keyring, err error) {
				if err != nil {
					told <- err.Error()
					return
				}
				told <- k.IDs()
			})
		}()
		expect := func(what string, words ...string) {
			t.Helper()
			time.Sleep(5 * keyring.WatchEvery)
			synctest.Wait()
			if len(told) != len(words) {
				t.Fatalf("%s: told %d times", what, len(told))
			}
			for _, w := range words {
				if got := <-told; !strings.Contains(got, w) {
					t.Errorf("%s: told %q, want %q", what, got, w)
				}
			}
		}
		expect("nothing changed")
		after := add(t, path)
		expect("a root was added", after.IDs())
		good, _ := os.ReadFile(path)
		os.WriteFile(path, good[:len(good)/2], 0o600)
		expect("half a file", "keys.json")
		os.WriteFile(path, []byte(`{"version": 1, "roots": []}`), 0o600)
		expect("a file of nothing", "1 to 16 roots")
		os.Remove(path)
		expect("no file", "no such file")
		os.WriteFile(path, good, 0o600)
		expect("mended", after.IDs())
		stop()
		<-done
	})
}
