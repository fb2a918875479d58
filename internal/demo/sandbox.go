package demo

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// sandbox is a process that really holds memory: what the demo boots. It ends by a signal, or
// when the demo does.
type sandbox struct {
	touch  mebibytes     // what it holds in all, its own program included
	growTo mebibytes     // what it grows to, and shrinks from; 0: never
	rate   mebibytes     // it grows a second
	after  time.Duration // before it grows
	hold   time.Duration // before it shrinks
	with   int           // pid of the demo; 0: it stays until a signal
}

func sandboxCommand() *cobra.Command {
	var s sandbox
	c := &cobra.Command{
		Use: "sandbox", Hidden: true, Args: cobra.NoArgs,
		Short: "Hold memory, as a sandbox of the demo does",
		RunE:  func(*cobra.Command, []string) error { return s.run() },
	}
	c.Flags().Var(&s.touch, "touch", "hold this `size` of anonymous memory, as in 40MiB")
	c.Flags().Var(&s.growTo, "grow-to", "grow to this `size`, then shrink back")
	c.Flags().Var(&s.rate, "rate", "grow by this `size` a second")
	c.Flags().DurationVar(&s.after, "after", 0, "how long to wait before growing")
	c.Flags().DurationVar(&s.hold, "hold", 0, "how long to stay grown")
	c.Flags().IntVar(&s.with, "with", 0, "end when this `pid` does")
	return c
}

// args is the command line of such a sandbox.
func (s sandbox) args() []string {
	return []string{
		"demo", "sandbox", "--touch", s.touch.String(), "--grow-to", s.growTo.String(), "--rate", s.rate.String(),
		"--after", s.after.String(), "--hold", s.hold.String(), "--with", strconv.Itoa(s.with),
	}
}

func (s sandbox) run() error {
	end, err := endOf(s.with)
	if err != nil {
		return err
	}
	machine, err := hostmem.Discover("/")
	if err != nil {
		return err
	}
	own, err := machine.ResidentProcess(os.Getpid())
	if err != nil {
		return err
	}
	held, err := reserve(size(s.touch).Sub(own.Bytes))
	if err != nil {
		return err
	}
	touch(held)
	if err := s.grow(); err != nil {
		return err
	}
	return end()
}

// grow touches more memory, at its rate by the clock, and gives it back.
func (s sandbox) grow() error {
	more, err := reserve(size(s.growTo - s.touch))
	if err != nil || more == nil {
		return err
	}
	time.Sleep(s.after)
	started, done := time.Now(), 0
	for done < len(more) {
		due := int(size(s.rate).Scale(int64(time.Since(started)), int64(time.Second)))
		due = min(due, len(more))
		touch(more[done:due])
		done = due
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(s.hold)
	return unix.Munmap(more)
}

// reserve maps memory that is not there before it is touched.
func reserve(n size) ([]byte, error) {
	if n <= 0 {
		return nil, nil
	}
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", n, err)
	}
	return b, nil
}

func touch(b []byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
}

// endOf returns what waits for the end of a process. So nothing of a demo that was killed
// stays behind.
func endOf(pid int) (wait func() error, err error) {
	if pid == 0 {
		return func() error { select {} }, nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	return func() error {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if err != unix.EINTR {
				return err
			}
		}
	}, nil
}

// mebibytes is a size on a command line.
type mebibytes size

// String returns it as it is written.
func (m *mebibytes) String() string { return fmt.Sprintf("%dMiB", size(*m).CeilMiB()) }

// Set reads it.
func (m *mebibytes) Set(text string) error {
	number, ok := strings.CutSuffix(text, "MiB")
	n, err := strconv.ParseUint(number, 10, 20)
	if !ok || err != nil {
		return fmt.Errorf("write a size in MiB, as in 40MiB")
	}
	*m = mebibytes(gate.FromMiB(int64(n)))
	return nil
}

// Type is what help calls it.
func (m *mebibytes) Type() string { return "size" }
