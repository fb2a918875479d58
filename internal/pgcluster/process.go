package pgcluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a started command that somebody waits for.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
}

// launch starts a command on a thread that lives as long as it does: it is that thread's end,
// not our process's, at which the kernel sends Pdeathsig.
func launch(cmd *exec.Cmd) (*process, error) {
	p, started := &process{cmd, make(chan struct{})}, make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
		close(p.ended)
	}()
	return p, <-started
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// childrenOf lists the processes that one has started.
func childrenOf(parent int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/status")
	var pids []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if strings.Contains(string(text), fmt.Sprintf("\nPPid:\t%d\n", parent)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// end sends the signal and waits; a process that does not heed it is killed.
func (p *process) end(by syscall.Signal) {
	_ = p.cmd.Process.Signal(by) // it may have ended by itself
	select {
	case <-p.ended:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}
