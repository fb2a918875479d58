package driver

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// defaultGrace is how long a sandbox may take to end by itself after TERM.
const defaultGrace = 10 * time.Second

// Config is what a Driver stands on.
type Config struct {
	Machine *hostmem.Machine
	Parent  string        // cgroup of all sandboxes; each agent needs its own. Default plimsoll/<host name>
	Dir     string        // for the logs of sandboxes; none are kept where it is empty
	Exec    string        // our own binary, which calls ExecMain. Default /proc/self/exe: outlives an upgrade
	Grace   time.Duration // between TERM and KILL; default 10 s
}

// Driver boots, adopts and stops sandboxes.
type Driver struct {
	machine *hostmem.Machine
	parent  string
	dir     string
	exec    string
	grace   time.Duration

	mu       sync.Mutex          // guards what follows; never held across I/O
	bases    []base              // hierarchies in which sandboxes get cgroups
	warnings []string            // what is missing here, each once
	live     map[string]*Process // sandbox id -> process; nil while it is being prepared
}

// New makes the parent cgroup and the log directory. A machine where cgroups cannot be made
// is no error: see Warnings.
func New(c Config) (*Driver, error) {
	if c.Machine == nil {
		return nil, errors.New("make the process driver: no machine given: pass what hostmem.Discover returns")
	}
	d := &Driver{
		machine: c.Machine,
		parent:  filepath.Clean("/" + c.Parent),
		dir:     c.Dir,
		exec:    cmp.Or(c.Exec, "/proc/self/exe"),
		grace:   cmp.Or(c.Grace, defaultGrace),
		live:    map[string]*Process{},
	}
	if c.Parent == "" {
		d.parent = defaultParent()
	}
	if d.parent == "/" {
		return nil, errors.New("make the process driver: the cgroup parent is the root of all cgroups: give the sandboxes one of their own, such as plimsoll/host-1")
	}
	if c.Dir != "" {
		// Others may pass through to the one log they own, but not list the rest.
		if err := os.MkdirAll(c.Dir, 0o711); err != nil {
			return nil, fmt.Errorf("make the log directory: %w: choose one that the agent can write", err)
		}
	}
	d.findBases()
	return d, nil
}

func defaultParent() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "default"
	}
	return "/plimsoll/" + filepath.Base(name)
}

// Parent is the cgroup below which the sandboxes are, as the kernel names it.
func (d *Driver) Parent() string { return d.parent }

// Warnings says what this machine does not allow, what that means and the remedy.
func (d *Driver) Warnings() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.warnings)
}

func (d *Driver) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.warnings, text) {
		d.warnings = append(d.warnings, text)
	}
}

// claim takes an id for a sandbox about to be, so that two calls cannot boot it twice.
func (d *Driver) claim(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.live[id]; taken {
		return fmt.Errorf("sandbox %s is already there: stop it first or choose another id", id)
	}
	d.live[id] = nil
	return nil
}

func (d *Driver) enter(id string, p *Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live[id] = p
}

func (d *Driver) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.live, id)
}

func (d *Driver) knows(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.live[id]
	return ok
}
