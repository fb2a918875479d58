package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// The cgroups: a slice that bounds the agent and its sandboxes, as a container or a systemd
// unit would; in it the agent's own, and that of all sandboxes with a narrower bound.
//
//	/fleet             400 MiB
//	├── service        380 MiB   the agent
//	└── sandboxes      320 MiB   one below it for each sandbox
const (
	cgroups      = "/sys/fs/cgroup"
	fleet        = "/fleet"
	service      = fleet + "/service"
	sandboxes    = fleet + "/sandboxes"
	fleetMB      = 400
	serviceMB    = 380
	sandboxesMB  = 320
	headroomMB   = 64
	program      = "/bin/plimsoll"
	stateDir     = "/data"
	socket       = stateDir + "/agent.sock"
	agentLogFile = "/tmp/agent.log"
	dataDisk     = "/dev/ram0" // empty; what was read of it lies in the page cache
	swapDisk     = "/dev/ram1"
)

// machine is this machine with its agent.
type machine struct {
	cgroup  string // of the agent; "": as this process
	agent   *exec.Cmd
	seam    boot.Client
	reclaim []string // settings beside those that all checks have; nil: it is off, and the kernel chooses
}

// prepareHost makes the cgroups.
func prepareHost() error {
	for _, g := range []struct {
		path string
		mb   int
	}{{fleet, fleetMB}, {service, serviceMB}, {sandboxes, sandboxesMB}} {
		if err := os.MkdirAll(cgroups+g.path, 0o755); err != nil {
			return err
		}
		if err := write(cgroups+filepath.Dir(g.path)+"/cgroup.subtree_control", "+memory +hugetlb"); err != nil {
			return err
		}
		if err := write(cgroups+g.path+"/memory.max", strconv.Itoa(g.mb*mib)); err != nil {
			return err
		}
	}
	return os.MkdirAll(stateDir, 0o755)
}

// start starts the agent in its cgroup, and waits until it answers.
func (m *machine) start() error {
	log, err := os.OpenFile(agentLogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	group, err := os.Open(cgroups + m.cgroup)
	if err != nil {
		return err
	}
	defer group.Close()
	m.agent = exec.Command(program, "agent")
	m.agent.Env = []string{
		"HOME=/tmp", "PATH=/",
		"PLIMSOLL_DATA_DIR=" + stateDir,
		"PLIMSOLL_HOST_ID=vm",
		"PLIMSOLL_HOST_CGROUP_PARENT=" + strings.TrimPrefix(sandboxes, "/"),
		fmt.Sprintf("PLIMSOLL_HOST_HEADROOM=%dMiB", headroomMB),
		"PLIMSOLL_HOST_SAMPLE_LIMITS=30ms", // half the headroom must outlast it
		"PLIMSOLL_HOST_STOP_GRACE=1s",
		"PLIMSOLL_HOST_DWELL=2s",
		"PLIMSOLL_HOST_DIMENSIONS=hugepages=16",
		"PLIMSOLL_HOST_RECLAIM=off",
	}
	m.agent.Env = append(m.agent.Env, m.reclaim...)
	m.agent.Stdout, m.agent.Stderr = log, log
	m.agent.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := m.agent.Start(); err != nil {
		return err
	}
	m.seam = boot.Client{Socket: socket}
	return m.answers()
}

// answers waits for the agent's first measured word.
func (m *machine) answers() error {
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(lookEach) {
		var h api.Host
		if h, err = m.seam.Show(context.Background()); err == nil && len(h.Limits) > 0 {
			return nil
		}
	}
	return errors.Join(errors.New("the agent does not answer"), err)
}

// kill ends the agent as nothing else does. Its sandboxes go on.
func (m *machine) kill() {
	_ = m.agent.Process.Kill() // it may have ended
	_ = m.agent.Wait()
}

func (c *run) show() api.Host {
	h, err := c.seam.Show(context.Background())
	c.must(err)
	return h
}

// ask is for a stateless sandbox that is charged little beside what it holds.
func ask(mb int64) boot.Ask {
	fraction, floor := 0.0, int64(8)
	return boot.Ask{MemoryMB: mb, Class: "work", Reserve: &boot.ReserveRule{Fraction: &fraction, FloorMB: &floor}}
}

// sandbox is one that the agent's driver booted.
type sandbox struct {
	id     string
	ticket string
	said   *bufio.Reader
	over   chan struct{} // closed when it has ended
	exit   boot.Exit     // set before that, as is err
	err    error
}

// isOpen waits until the host takes more: what a check before has grown may have shut it.
func (c *run) isOpen() {
	c.becomes("the intake to be open", func() string {
		if h := c.show(); h.Intake != api.IntakeOpen {
			return fmt.Sprintf("%s: %s", h.Intake, h.IntakeReason)
		}
		return ""
	})
}

// boots has the agent boot a sandbox, which is stopped when the check is over.
func (c *run) boots(a boot.Ask, work ...string) *sandbox {
	c.isOpen()
	r, err := c.seam.Reserve(context.Background(), a)
	c.must(err)
	out, in := io.Pipe()
	s := &sandbox{id: r.ID, ticket: r.Ticket, said: bufio.NewReader(out), over: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(s.over)
		defer in.Close()
		s.exit, s.err = c.seam.Run(ctx, r.Ticket, boot.Command{Argv: append([]string{"/init", "work"}, work...)}, in, in, nil)
	}()
	c.cleanup(func() {
		_ = c.seam.Release(context.Background(), r.Ticket) // it may have ended
		c.ends(s)
		cancel()
		c.becomes("its memory to be free", func() string {
			if h := c.show(); holds(h, s.id) != nil {
				return "it is still charged"
			}
			return ""
		})
	})
	return s
}

// isReady waits until a sandbox's work is done.
func (c *run) isReady(s *sandbox) {
	line, err := s.said.ReadString('\n')
	if strings.TrimSpace(line) != ready {
		c.fatalf("sandbox %s said %q, %v", s.id, line, err)
	}
	go io.Copy(io.Discard, s.said)
}

// ends waits for a sandbox's end.
func (c *run) ends(s *sandbox) {
	go io.Copy(io.Discard, s.said)
	select {
	case <-s.over:
	case <-time.After(patience):
		c.fatalf("sandbox %s does not end", s.id)
	}
}

// holds is what a host shows of one sandbox; nil for nothing.
func holds(h api.Host, id string) *api.Sandbox {
	i := slices.IndexFunc(h.Sandboxes, func(s api.Sandbox) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &h.Sandboxes[i]
}

func limitOf(h api.Host, name string) (api.Limit, bool) {
	i := slices.IndexFunc(h.Limits, func(l api.Limit) bool { return l.Name == name })
	if i < 0 {
		return api.Limit{}, false
	}
	return h.Limits[i], true
}

// groupOf is the folder of a sandbox's cgroup.
func groupOf(id string) string { return cgroups + sandboxes + "/sb-" + id }

// number reads a cgroup's file of one number, in MiB.
func (c *run) number(file string) int64 {
	text, err := os.ReadFile(file)
	c.must(err)
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	c.must(err)
	return n / mib
}

// events reads a cgroup's memory.events.
func (c *run) events(group string) map[string]int64 {
	text, err := os.ReadFile(group + "/memory.events")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c.must(err)
	all := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		var name string
		var n int64
		if _, err := fmt.Sscan(line, &name, &n); err == nil {
			all[name] = n
		}
	}
	return all
}

// swapsOn makes the second disk swap, for one check.
func (c *run) swapsOn() {
	c.must(makeSwap(swapDisk))
	name, err := unix.BytePtrFromString(swapDisk)
	c.must(err)
	if _, _, no := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(name)), 0, 0); no != 0 {
		c.fatalf("swap on %s: %v", swapDisk, no)
	}
	c.cleanup(func() {
		if _, _, no := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(name)), 0, 0); no != 0 {
			c.errorf("swap off: %v", no)
		}
	})
}

// makeSwap writes the header that mkswap would: a version, the number of the last page, and
// the magic word at the end of the first.
func makeSwap(disk string) error {
	f, err := os.OpenFile(disk, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var head [pageSize]byte
	binary.NativeEndian.PutUint32(head[1024:], 1)
	binary.NativeEndian.PutUint32(head[1028:], uint32(size/pageSize-1))
	copy(head[pageSize-10:], "SWAPSPACE2")
	if _, err := f.WriteAt(head[:], 0); err != nil {
		return err
	}
	return f.Sync()
}
