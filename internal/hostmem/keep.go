package hostmem

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keeper holds files open that are read again and again: to look a path up, open it and close it
// costs more than to read what a process or a cgroup holds. A held file is of the one process or
// cgroup that it was opened for, whoever has its name by now.
type keeper struct {
	mu    sync.Mutex
	files map[string]*kept // path -> open file
	round int
	most  int

	parent string   // whose chain is known
	chain  []string // it, and what bounds it
}

type kept struct {
	fd    int // -1: it was not there
	round int // when it was last read, or looked for
}

// lookAgain is for how many rounds a file that was not there is taken to be missing.
const lookAgain = 16

// Keep returns a view of the machine that holds the files of sandboxes open between two calls of
// Turn: of those that fit in half of the descriptors that this process may have. Close ends it.
func (m *Machine) Keep() *Machine {
	var limit unix.Rlimit
	most := 0
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		most = int(min(limit.Cur/2, 1<<20))
	}
	view := *m
	view.keep = &keeper{files: map[string]*kept{}, most: most}
	return &view
}

// Turn closes what was not read since the last one.
func (m *Machine) Turn() {
	m.keep.closeIf(func(f *kept) bool { return f.fd >= 0 && f.round != m.keep.round || f.round+lookAgain <= m.keep.round })
	m.keep.round++
}

// Close closes all that is held open.
func (m *Machine) Close() { m.keep.closeIf(func(*kept) bool { return true }) }

func (k *keeper) closeIf(over func(*kept) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, f := range k.files {
		if over(f) {
			if f.fd >= 0 {
				unix.Close(f.fd)
			}
			delete(k.files, name)
		}
	}
}

// chained is what bounds a cgroup, worked out once.
func (k *keeper) chained(parent string, of func(string) []string) []string {
	if k == nil {
		return of(parent)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.chain == nil || k.parent != parent {
		k.parent, k.chain = parent, of(parent)
	}
	return k.chain
}

// perhaps is reread of a file that a cgroup may well lack for good: where it was not there it is
// looked for again some rounds later.
func perhaps[T any](m *Machine, name string, parse func([]byte) (T, error)) (T, error) {
	var zero T
	if m.keep.missing(name) {
		return zero, failed("open", name, unix.ENOENT)
	}
	v, err := reread(m, name, parse)
	if isGone(err) {
		m.keep.miss(name)
	}
	return v, err
}

func (k *keeper) missing(name string) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.files[name]
	return f != nil && f.fd < 0
}

func (k *keeper) miss(name string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.files) < k.most {
		k.files[name] = &kept{fd: -1, round: k.round}
	}
}

// reread is read of a file that the kernel shows as one record, through the keeper if there is
// one.
func reread[T any](m *Machine, name string, parse func([]byte) (T, error)) (T, error) {
	return readBy(m.keep, name, parse)
}

// slurp reads a file that is held open, or is to be from now on; without a keeper any file.
func (k *keeper) slurp(name string, buf *[]byte) ([]byte, error) {
	if k == nil {
		return slurp(name, buf)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.files[name]
	if f == nil || f.fd < 0 {
		if len(k.files) >= k.most {
			return slurp(name, buf)
		}
		fd, err := open(name)
		if err != nil {
			return nil, failed("open", name, err)
		}
		f = &kept{fd: fd}
		k.files[name] = f
	}
	f.round = k.round
	text, err := again(f.fd, buf)
	if err != nil {
		unix.Close(f.fd)
		delete(k.files, name)
		return nil, failed("read", name, err)
	}
	return text, nil
}

// again reads a file from its beginning. What fills the buffer may go on behind it.
func again(fd int, buf *[]byte) ([]byte, error) {
	for {
		n, err := rereadInto(fd, *buf)
		switch {
		case err == unix.EINTR:
		case err != 0:
			return nil, err
		case n < len(*buf):
			return (*buf)[:n], nil
		default:
			*buf = make([]byte, 2*len(*buf))
		}
	}
}

// rereadInto reads a file from its beginning without telling Go's runtime, which would wake a thread
// to watch over the call: a fifth of what an agent worked. The kernel answers out of memory that it
// has set aside for this open file since it was first read, within microseconds, and waits for no disk.
func rereadInto(fd int, buf []byte) (n int, err unix.Errno) {
	got, _, err := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), 0, 0, 0)
	return int(got), err
}
