package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// flock is many small processes that sleep, as sandboxes to be measured. They end with us.
type flock struct {
	machine *hostmem.Machine
	dir     string
	shell   *exec.Cmd
	input   io.Closer // the flock goes when this does
	pids    []int
	parent  string // of their cgroups
	grouped bool
}

// A shell has them for children, so that they go when it does, and it when its input ends. Each
// enters its cgroup before it holds anything: what a process holds stays where it was charged.
const (
	sleepers = `n=0; while [ $n -lt %d ]; do %s </dev/null >/dev/null 2>&1 & echo $!; n=$((n+1)); done; echo; cat >/dev/null; kill -9 0`
	plain    = `sleep 2147483647`
	entering = `sh -c 'for d in "$@"; do echo $$ > "$d/cgroup.procs" || exit; done; exec sleep 2147483647' enter%s`
)

// newFlock starts n processes, each in a cgroup of its own if they are to be grouped.
func newFlock(machine *hostmem.Machine, n int, grouped bool) (c *flock, err error) {
	c = &flock{machine: machine, grouped: grouped, parent: fmt.Sprintf("/plimsoll-bench-%d", os.Getpid())}
	if c.dir, err = os.MkdirTemp("", "plimsoll-bench-"); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	one := plain
	if grouped {
		dirs := ""
		for _, h := range c.hierarchies() {
			dirs += fmt.Sprintf(` "%s/s$n"`, h.Dir(c.parent))
		}
		one = fmt.Sprintf(entering, dirs)
		err = c.makeGroups(n)
	}
	if err == nil {
		err = c.start(n, one)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("bench: start %d processes: %w", n, err)
	}
	return c, nil
}

// makeGroups makes a cgroup for each, below one that a driver makes, with what that needs: where
// memory is counted, and where work is.
func (c *flock) makeGroups(n int) error {
	if !c.machine.Memory().Mounted() {
		return errors.New("there is no memory controller")
	}
	if _, err := driver.New(driver.Config{Machine: c.machine, Parent: c.parent}); err != nil {
		return err
	}
	for _, h := range c.hierarchies() {
		for i := range n {
			if err := os.Mkdir(h.Dir(c.cgroup(i)), 0o755); err != nil {
				return fmt.Errorf("make a cgroup: %w: run it as root", err)
			}
		}
	}
	return nil
}

func (c *flock) start(n int, one string) error {
	c.shell = exec.Command("sh", "-c", fmt.Sprintf(sleepers, n, one))
	c.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.shell.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.shell.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.shell.Start(); err != nil {
		return err
	}
	c.input = in
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != ""; {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		c.pids = append(c.pids, pid)
	}
	if len(c.pids) < n {
		return fmt.Errorf("only %d were: see ulimit -u", len(c.pids))
	}
	return c.settle()
}

// settle waits until each of them is what it is going to be.
func (c *flock) settle() error {
	for _, pid := range c.pids {
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if err != nil || time.Now().After(end) {
				return errors.Join(errors.New("one of them ended, or never began"), err)
			}
			if string(name) == "sleep\n" {
				break
			}
		}
	}
	return nil
}

func (c *flock) close() {
	if c.input != nil {
		c.input.Close()
		_ = c.shell.Wait() // it kills itself with them
		c.input = nil
	}
	for _, h := range c.hierarchies() {
		removeCgroups(h.Dir(c.parent))
	}
	os.RemoveAll(c.dir)
}

// removeCgroups removes a tree of cgroups, whose last processes may be about to go.
func removeCgroups(dir string) {
	for range 100 {
		below, _ := os.ReadDir(dir)
		for _, e := range below {
			if e.IsDir() {
				unix.Rmdir(filepath.Join(dir, e.Name()))
			}
		}
		if err := unix.Rmdir(dir); err == nil || errors.Is(err, unix.ENOENT) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *flock) hierarchies() (all []hostmem.Hierarchy) {
	memory, unified := c.machine.Memory(), c.machine.Unified()
	if memory.Mounted() {
		all = append(all, memory)
	}
	if unified.Mounted() && unified != memory {
		all = append(all, unified)
	}
	return all
}

func (c *flock) by() string {
	if c.grouped {
		return "cgroup"
	}
	return "process"
}

func (c *flock) cgroup(i int) string { return c.parent + "/s" + strconv.Itoa(i) }

// Footprint is what a whole agent takes, in a process of its own, while it watches sandboxes.
type Footprint struct {
	Sandboxes  int     `json:"sandboxes"`
	By         string  `json:"by"`
	ForS       float64 `json:"for_s"`
	CPUPercent float64 `json:"cpu_percent"` // of one core
	ResidentMB float64 `json:"resident_mb"` // at the end
	PeakMB     float64 `json:"peak_mb"`
}

// footprint starts an agent as plimsoll agent does, and has it watch some of the flock.
func (c *flock) footprint(ctx context.Context, o *SampleOptions) (*Footprint, error) {
	a, err := c.startAgent()
	if err != nil {
		return nil, err
	}
	defer func() {
		a.Process.Signal(unix.SIGTERM)
		_ = a.Wait() // what it ended with is nothing to us
	}()
	f := &Footprint{Sandboxes: o.Watched, By: c.by()}
	client := boot.Client{Socket: filepath.Join(c.dir, "agent.sock")}
	for i := range o.Watched {
		if err := c.watchOne(ctx, client, i); err != nil {
			return nil, err
		}
	}
	wait(ctx, min(o.For, 3*time.Second)) // until what the start left behind is done
	before, then := c.worked(a.Process.Pid), time.Now()
	wait(ctx, o.For)
	took := time.Since(then)
	f.ForS = took.Seconds()
	f.CPUPercent = 100 * float64(c.worked(a.Process.Pid)-before) / float64(took)
	f.ResidentMB, f.PeakMB = statusMB(a.Process.Pid, "VmRSS:"), statusMB(a.Process.Pid, "VmHWM:")
	return f, ctx.Err()
}

func (c *flock) startAgent() (*exec.Cmd, error) {
	file := filepath.Join(c.dir, "agent.yaml")
	settings := fmt.Sprintf("data_dir: %s\nhost: {id: bench, socket: %s, cgroup_parent: %s, max_starts: 100000}\n",
		c.dir, filepath.Join(c.dir, "agent.sock"), strings.TrimPrefix(c.parent, "/")+"/own")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	a := exec.Command(self, "agent", "--config", file, "--log", "error")
	a.Stderr = os.Stderr
	out, err := a.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if err := a.Start(); err != nil {
		return nil, fmt.Errorf("bench: start an agent: %w", err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it speaks when it can be asked
		_ = a.Wait() // it is the silence that is told
		return nil, errors.New("bench: the agent did not start")
	}
	go io.Copy(io.Discard, out)
	return a, nil
}

func (c *flock) watchOne(ctx context.Context, client boot.Client, i int) error {
	fraction, floor := 0.0, int64(0) // it asks for nothing, so that it fits
	p, err := client.Reserve(ctx, boot.Ask{MemoryMB: gate.MiB.CeilMiB(), Reserve: &boot.ReserveRule{Fraction: &fraction, FloorMB: &floor}})
	if err != nil {
		return fmt.Errorf("bench: reserve: %w", err)
	}
	start, err := client.Redeem(ctx, p.Ticket)
	if err != nil {
		return fmt.Errorf("bench: redeem: %w", err)
	}
	defer start.Close()
	if c.grouped {
		return start.TrackCgroup(ctx, c.pids[i], c.cgroup(i))
	}
	return start.Track(ctx, c.pids[i])
}

// worked is the processor time that another process has had; none of one that is gone.
func (c *flock) worked(pid int) time.Duration {
	p, _ := c.machine.Process(pid)
	return time.Duration(p.Worked) * hostmem.Tick
}

func statusMB(pid int, name string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // gone: it has nothing
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}
