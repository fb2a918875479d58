package hostmem

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"
)

// scratch lends out read buffers: a sample of 1,000 sandboxes reads thousands of small
// files and should leave nothing for the collector. It holds nothing but idle memory.
var scratch = sync.Pool{New: func() any { b := make([]byte, 8<<10); return &b }}

// read parses one whole kernel file. It goes to the system calls directly: os.Open would
// also try to register each of these files with the poller, which costs as much again. What
// parse returns must hold nothing of the text: the next file is read over it.
func read[T any](name string, parse func([]byte) (T, error)) (T, error) {
	return readBy(nil, name, parse)
}

// readBy is read through a keeper, if there is one.
func readBy[T any](k *keeper, name string, parse func([]byte) (T, error)) (T, error) {
	var zero T
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	text, err := k.slurp(name, buf)
	if err != nil {
		return zero, err
	}
	v, err := parse(text)
	if err != nil {
		return zero, fmt.Errorf("parse %s: %w", name, err)
	}
	return v, nil
}

// slurp reads a file into buf, growing it where need be.
func slurp(name string, buf *[]byte) ([]byte, error) {
	fd, err := open(name)
	if err != nil {
		return nil, failed("open", name, err)
	}
	defer unix.Close(fd)
	n := 0
	for {
		got, err := unix.Read(fd, (*buf)[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, failed("read", name, err)
		case got == 0:
			return (*buf)[:n], nil
		}
		if n += got; n == len(*buf) {
			*buf = append(*buf, make([]byte, n)...)
		}
	}
}

func open(name string) (int, error) {
	for {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// failed names the deed and the file. The kernel answers ESRCH for a process, and ENODEV
// for a cgroup, that vanished between open and read: to a caller both are "not there".
func failed(op, name string, err error) error {
	pathErr := &fs.PathError{Op: op, Path: name, Err: err}
	switch {
	case err == unix.ESRCH, err == unix.ENODEV:
		return fmt.Errorf("%w (%w)", pathErr, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: run the agent as root or let its user read this file", pathErr)
	}
	return pathErr
}
