package microvm

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config is what a machine is to be.
type Config struct {
	Tools
	Dir      string            // a folder of its own, for its root file system
	MemoryMB int64             // as the guest sees it
	CodeMB   int64             // that the emulator may keep of what it has translated; 0: all there is
	Init     string            // a static program of this machine: /init of the guest
	Args     []string          // of /init
	Boot     []string          // further words of the kernel's command line
	Files    map[string]string // path in the guest -> file here
	Load     []Module          // for /init to load, in this order
}

// Machine is one that runs, or has.
type Machine struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	over  chan struct{} // closed when the emulator has ended, and all it said was taken
	shut  chan struct{} // closed by Close
	once  sync.Once     // closes shut
	err   error         // how the emulator ended; set before over is closed

	mu   sync.Mutex // guards tail
	tail []string   // the last lines of the console
}

const tailLines = 200

// ErrOff is how Line ends when the machine went off by itself; an emulator that failed has an
// error of its own.
var ErrOff = errors.New("the machine is off")

// Start boots a machine.
func Start(c Config) (*Machine, error) {
	root := filepath.Join(c.Dir, "root.cpio")
	if err := c.makeRoot(root); err != nil {
		return nil, fmt.Errorf("make the root file system of a machine: %w", err)
	}
	m := &Machine{
		cmd: exec.Command(c.QEMU, c.arguments(root)...), lines: make(chan string), over: make(chan struct{}), shut: make(chan struct{}),
	}
	if err := m.launch(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.QEMU, err)
	}
	return m, nil
}

// bootArgs are the kernel's. With ACPI it hangs in this emulator; pressure figures are off in
// Debian's kernel unless they are asked for; a panic ends the emulator, as a restart does.
const bootArgs = "console=ttyS0 quiet panic=-1 reboot=t psi=1"

// allCode is more than kernel, init and agent come to. With 16 they are translated again and again,
// and the same checks take three times the processor.
const allCode = 256

func (c *Config) arguments(root string) []string {
	kernelArgs := strings.Join(append([]string{bootArgs}, c.Boot...), " ")
	for _, m := range c.Load {
		for _, p := range m.Params {
			kernelArgs += " " + m.Name + "." + p
		}
	}
	if len(c.Args) > 0 {
		kernelArgs += " -- " + strings.Join(c.Args, " ")
	}
	return []string{
		"-M", "microvm,x-option-roms=off,isa-serial=on,rtc=on,acpi=off",
		"-accel", "tcg,tb-size=" + strconv.FormatInt(cmp.Or(c.CodeMB, allCode), 10), "-cpu", "max", "-m", strconv.FormatInt(c.MemoryMB, 10),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", c.Kernel, "-initrd", root, "-append", kernelArgs,
	}
}

// makeRoot writes the archive that the kernel unpacks into memory. It is not compressed: an
// emulated processor takes longer to undo that than to copy.
func (c *Config) makeRoot(name string) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<20)
	a := newArchive(out)
	a.device("dev/console", 5, 1)
	a.device("dev/null", 1, 3)
	a.file("init", c.Init, 0o755)
	for i, m := range c.Load {
		file, err := m.file(c.Modules)
		if err != nil {
			return err
		}
		a.file(fmt.Sprintf("modules/%02d-%s.ko", i, m.Name), file, 0o644)
	}
	for _, at := range slices.Sorted(maps.Keys(c.Files)) {
		a.file(at, c.Files[at], 0o755)
	}
	return errors.Join(a.end(), out.Flush())
}

// launch starts the emulator on a thread that lives as long as it does: it is that thread's
// end, not our process's, at which the kernel would kill it.
func (m *Machine) launch() error {
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in, err := m.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, theirs := io.Pipe()
	m.in, m.cmd.Stdout, m.cmd.Stderr = in, theirs, theirs
	go m.read(out)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := m.cmd.Start()
		started <- err
		if err == nil {
			m.err = m.cmd.Wait()
		}
		theirs.Close()
		close(m.over)
	}()
	return <-started
}

// read passes the console on. Nobody who has closed the machine is waited for.
func (m *Machine) read(console io.Reader) {
	defer close(m.lines)
	in := bufio.NewReader(console)
	for {
		line, err := in.ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			m.keep(line)
			select {
			case m.lines <- line:
			case <-m.shut:
			}
		}
		if err != nil {
			return
		}
	}
}

func (m *Machine) keep(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tail = append(m.tail, line); len(m.tail) > 2*tailLines {
		m.tail = slices.Clone(m.tail[tailLines:])
	}
}

// Pid is the emulator's, which holds all the memory that the guest has touched.
func (m *Machine) Pid() int { return m.cmd.Process.Pid }

// Line waits for the next line of the console that is not empty.
func (m *Machine) Line(ctx context.Context) (string, error) {
	select {
	case line, open := <-m.lines:
		if !open {
			<-m.over
			return "", cmp.Or(m.err, ErrOff)
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Say types a line at the console.
func (m *Machine) Say(line string) error {
	_, err := io.WriteString(m.in, line+"\n")
	return err
}

// Tail is the end of what the console showed, for whoever asks what went wrong.
func (m *Machine) Tail() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.tail[max(0, len(m.tail)-tailLines):], "\n")
}

// closeWithin is more than a killed process takes to be gone.
const closeWithin = 20 * time.Second

// Close ends the machine as a power cut does, and waits for it. It may be called twice.
func (m *Machine) Close() error {
	m.once.Do(func() { close(m.shut) })
	_ = m.cmd.Process.Kill() // it may have ended
	select {
	case <-m.over:
		return nil
	case <-time.After(closeWithin):
		return fmt.Errorf("the emulator, process %d, is still there %v after it was killed: see /proc/%[1]d/stack", m.Pid(), closeWithin)
	}
}
