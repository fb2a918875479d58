package hostmem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Trigger is a wake-up by the kernel at the moment at which tasks have stalled for a share of a
// window: nobody has to look again and again. One owner; Wait and Close do not overlap.
type Trigger struct {
	fd     int // the pressure file
	halt   int // an eventfd, that ends a wait
	Window time.Duration
}

// ErrNoTrigger says that this kernel gives no wake-up, at least not to us: it lacks PSI, or
// wants CAP_SYS_RESOURCE for any window. Then the counters have to be read.
var ErrNoTrigger = errors.New("the kernel gives no wake-up by memory pressure")

// Without CAP_SYS_RESOURCE a window must be a multiple of 2 s, since Linux 6.5; before, that
// right is needed for any.
var triggerWindows = [...]time.Duration{time.Second, 2 * time.Second}

// Trigger asks the kernel for a wake-up when at least one task has stalled for a share, in
// hundredths of a percent, of one second, or of two where it grants no shorter window.
func (m *Machine) Trigger(share int64) (*Trigger, error) {
	var failed error
	for _, window := range triggerWindows {
		fd, err := openTrigger(m.proc+"/pressure/memory", triggerText(share, window))
		if err == nil {
			return newTrigger(fd, window)
		}
		failed = err
	}
	return nil, fmt.Errorf("%w: %w", ErrNoTrigger, failed)
}

func newTrigger(fd int, window time.Duration) (*Trigger, error) {
	halt, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("%w: %w", ErrNoTrigger, err)
	}
	return &Trigger{fd, halt, window}, nil
}

// triggerText is what is written into the pressure file, in microseconds:
//
//	some 100000 1000000
func triggerText(share int64, window time.Duration) string {
	stalled := window / allTheTime * time.Duration(min(max(share, 1), allTheTime))
	return fmt.Sprintf("some %d %d", stalled.Microseconds(), window.Microseconds())
}

func openTrigger(file, text string) (fd int, err error) {
	for {
		fd, err = unix.Open(file, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return -1, failed("open", file, err)
	}
	if _, err := unix.Write(fd, append([]byte(text), 0)); err != nil {
		unix.Close(fd)
		return -1, failed("write", file, err)
	}
	return fd, nil
}

// Wait returns when the kernel has woken it, at most once a window, or when ctx ends, with its
// error. A trigger that is gone answers with another. It holds a thread meanwhile, and wakes it
// for nothing else: Go's runtime watches over each call that blocks, for some milliseconds.
func (t *Trigger) Wait(ctx context.Context) error {
	defer t.haltWith(ctx)()
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLPRI}, {Fd: int32(t.halt), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR || err == nil && fds[0].Revents == 0: // ctx may have ended
		case err != nil:
			return fmt.Errorf("wait for memory pressure: %w", err)
		case fds[0].Revents&(unix.POLLERR|unix.POLLNVAL) != 0:
			return fmt.Errorf("wait for memory pressure: %w: its file is no longer the kernel's", ErrNoTrigger)
		default:
			return nil
		}
	}
	return context.Cause(ctx)
}

// haltWith has the end of ctx end a wait, until what it returns is called.
func (t *Trigger) haltWith(ctx context.Context) (release func()) {
	halted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(halted)
		unix.Write(t.halt, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // it can only be full, which ends a wait as well
	})
	return func() {
		if stop() {
			return
		}
		<-halted
		var count [8]byte
		unix.Read(t.halt, count[:]) // the next wait is another's
	}
}

// Close gives the trigger back to the kernel.
func (t *Trigger) Close() error {
	unix.Close(t.halt)
	return unix.Close(t.fd)
}
