package agent

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerGroups returns the supplementary groups that the process at the other end of a Unix
// socket had when it connected. Those that the user database gives its user are another
// thing: a process that gave some up must not get them back by way of a sandbox.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups)) * 4
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return groups[:size/4], nil
		case errors.Is(errno, unix.ERANGE) && int(size) > len(groups)*4:
			groups = make([]uint32, size/4)
		case errors.Is(errno, unix.ENOPROTOOPT): // before Linux 4.13: then it has none
			return nil, nil
		default:
			return nil, fmt.Errorf("ask for the groups of the other end: %w", errno)
		}
	}
}
