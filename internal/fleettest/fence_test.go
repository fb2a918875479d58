package fleettest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// fence stands before one process, where others dial it, and spoils their connections: each
// dialler's by itself, or all of them. There is one before each agent, for the replicas'
// streams, and one before each replica, where agents join and register.
type fence struct {
	t        *testing.T
	listener net.Listener
	to       string

	mu       sync.Mutex // guards what follows
	diallers []*replica
	rules    []rule // by dialler
	passed   []int  // by dialler: its connections that were carried
	open     map[*fenced]bool
	done     sync.WaitGroup
}

// rule is what befalls the bytes of one dialler's connections. The zero rule lets them pass.
type rule struct {
	cut     bool          // connections are broken, and none is taken
	hold    bool          // nothing passes until this is over; then all of it does
	swallow bool          // what is sent is lost, and neither end is told: a half-open connection
	late    time.Duration // each piece passes so much later, so that others' overtake it
	trickle bool          // few bytes pass at a time
}

// fenced is one connection through a fence.
type fenced struct {
	dialler   int
	near, far net.Conn
}

func newFence(t *testing.T, to string, diallers ...*replica) *fence {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fence{t: t, listener: l, to: to, open: map[*fenced]bool{}}
	f.lets(diallers...)
	f.done.Go(f.accept)
	t.Cleanup(func() {
		_ = l.Close()
		for i := range f.rules {
			f.set(i, rule{cut: true})
		}
		f.done.Wait()
	})
	return f
}

// lets names more of those who may dial.
func (f *fence) lets(diallers ...*replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.diallers = append(f.diallers, diallers...)
	f.rules = append(f.rules, make([]rule, len(diallers))...)
	f.passed = append(f.passed, make([]int, len(diallers))...)
}

func (f *fence) address() string { return f.listener.Addr().String() }

func (f *fence) set(dialler int, r rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules[dialler] = r
	for c := range f.open {
		if r.cut && c.dialler == dialler {
			_ = c.near.Close()
			_ = c.far.Close()
		}
	}
}

func (f *fence) rule(dialler int) rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rules[dialler]
}

func (f *fence) accept() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.done.Go(func() { f.pass(near) })
	}
}

// pass carries one connection. Whoever is none of its diallers, or is gone already, is let go.
func (f *fence) pass(near net.Conn) {
	defer func() { _ = near.Close() }()
	from := f.whose(near)
	if from < 0 || f.rule(from).cut {
		return
	}
	far, err := net.Dial("tcp", f.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	c := &fenced{from, near, far}
	f.mu.Lock()
	f.open[c] = true
	f.passed[from]++
	f.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { f.carry(c, far, near) })
	both.Go(func() { f.carry(c, near, far) })
	both.Wait()
	f.mu.Lock()
	delete(f.open, c)
	f.mu.Unlock()
}

// carry moves bytes one way as the rule of the moment says, and in their order: frames of one
// stream never overtake each other, since it is one TCP connection. Those of two replicas do,
// by late and hold; those of two streams of one replica, in TestLateFramesOfAFormerStream. What was
// swallowed is gone for good, and so is all that follows on that connection.
func (f *fence) carry(c *fenced, to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	piece, swallowed := make([]byte, 16<<10), false
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		r := f.rule(c.dialler)
		for ; r.hold; r = f.rule(c.dialler) {
			time.Sleep(5 * time.Millisecond)
		}
		swallowed = swallowed || r.swallow
		switch {
		case r.cut:
			return
		case swallowed:
			continue
		case r.trickle:
			err = trickle(to, piece[:n])
		default:
			time.Sleep(r.late)
			_, err = to.Write(piece[:n])
		}
		if err != nil {
			return
		}
	}
}

func trickle(to io.Writer, all []byte) error {
	for len(all) > 0 {
		n := min(len(all), 150)
		if _, err := to.Write(all[:n]); err != nil {
			return err
		}
		all = all[n:]
		time.Sleep(3 * time.Millisecond)
	}
	return nil
}

// whose tells by the kernel's tables which dialler opened a connection; -1 for none.
func (f *fence) whose(c net.Conn) int {
	inode := inodeOf(c.RemoteAddr().(*net.TCPAddr).Port, c.LocalAddr().(*net.TCPAddr).Port)
	if inode == "" {
		return -1
	}
	f.mu.Lock()
	diallers := slices.Clone(f.diallers)
	f.mu.Unlock()
	for i, r := range diallers {
		pid := r.pid.Load()
		all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range all {
			if to, err := os.Readlink(fd); err == nil && to == "socket:["+inode+"]" {
				return i
			}
		}
	}
	return -1
}

// inodeOf finds a socket of this machine by its ports, as in
//
//	3: 0100007F:9A7C 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 81532 1 …
func inodeOf(local, remote int) string {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	mine, other := fmt.Appendf(nil, ":%04X", local), fmt.Appendf(nil, ":%04X", remote)
	for line := range bytes.Lines(table) {
		if w := bytes.Fields(line); len(w) > 9 && bytes.HasSuffix(w[1], mine) && bytes.HasSuffix(w[2], other) {
			return string(w[9])
		}
	}
	return ""
}
