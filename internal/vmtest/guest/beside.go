package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// beside starts work that is no sandbox, in a cgroup of its own without a limit, and as unlikely
// to be chosen by the kernel as it may. It returns how to end it.
func (c *run) beside(group string, score int, work ...string) (end func()) {
	dir := cgroups + group
	c.must(os.MkdirAll(dir, 0o755))
	c.cleanup(func() { _ = unix.Rmdir(dir) }) // of the machine's root nobody minds one
	f, err := os.Open(dir)
	c.must(err)
	defer f.Close()
	cmd := exec.Command("/init", append([]string{"work"}, work...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	c.must(cmd.Start())
	c.must(write(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), strconv.Itoa(score)))
	return func() {
		_ = cmd.Process.Kill() // the kernel may have
		_ = cmd.Wait()
	}
}
