package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// marked lists the processes of a run: those that carry its name in their environment, which
// nobody else has, and which their children inherit.
func marked(run string) (pids []int) {
	entries, _ := os.ReadDir("/proc") // without it nothing would have been measured
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && carries(pid, run) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func carries(pid int, run string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(e []byte) bool {
		return string(e) == marker+"="+run
	})
}

// send sends a signal to a process of this run, and to no other that may have its pid by now.
func send(pid int, run string, s unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	if carries(pid, run) {
		unix.PidfdSendSignal(fd, s, nil, 0)
	}
}

// endAll kills every process of a run but those that are spared, until there is none.
func endAll(ctx context.Context, run string, spared func(pid int) bool) error {
	for {
		left := slices.DeleteFunc(marked(run), spared)
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			send(pid, run, unix.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v were killed and are still there", left)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
