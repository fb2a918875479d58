package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/vmtest"
)

// initial is what process 1 does: it makes the machine ready, has the rest done by a child, reaps
// what others leave behind, and turns the machine off.
func initial(args []string) {
	err := prepare()
	if err == nil {
		err = attend(args)
	}
	if err != nil {
		report(vmtest.Event{Kind: vmtest.Fault, Text: "init: " + err.Error()})
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // the emulator ends instead of starting again
}

func prepare() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"},
		{"sysfs", "/sys"},
		{"devtmpfs", "/dev"},
		{"cgroup2", "/sys/fs/cgroup"},
		{"tmpfs", "/tmp"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.at, err)
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	// From here on the kernel says its last words alone: its lines would tear ours apart.
	// What it has to say of a check is read from its log.
	const setLevel, emergencies = 8, 1
	if _, err := unix.Klogctl(setLevel, make([]byte, emergencies)); err != nil {
		return fmt.Errorf("have the kernel keep off the console: %w", err)
	}
	// The kernel is to kill sandboxes, and not the test.
	return write("/proc/self/oom_score_adj", "-1000")
}

// loadModules loads /modules in the order of their names, with what the kernel's command line
// says of each: of those that are not built in the kernel leaves that to whoever loads them.
func loadModules() error {
	files, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	for _, file := range files {
		_, name, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".ko"), "-")
		var params []string
		for _, word := range strings.Fields(string(line)) {
			if p, ok := strings.CutPrefix(word, name+"."); ok {
				params = append(params, p)
			}
		}
		if err := loadModule(file, strings.Join(params, " ")); err != nil {
			return fmt.Errorf("load %s: %w", file, err)
		}
	}
	return nil
}

func loadModule(file, params string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), params, 0)
}

// attend runs the rest as a child, and reaps everybody until that one has ended.
func attend(args []string) error {
	child := exec.Command("/init", args...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = []string{"PATH=/", "HOME=/tmp", "TMPDIR=/tmp"}
	if err := child.Start(); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case pid == child.Process.Pid && status != 0:
			return fmt.Errorf("the checks ended with status %d, signal %d", status.ExitStatus(), status.Signal())
		case pid == child.Process.Pid:
			return nil
		}
	}
}

// write writes a kernel's file, which must be there.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", text, file, err)
	}
	return nil
}
