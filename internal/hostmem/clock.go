package hostmem

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ParseBootID reads /proc/sys/kernel/random/boot_id:
//
//	3f0c1b52-6f9f-4f0e-9a53-0f7f1c3a7c11
func ParseBootID(text []byte) (string, error) {
	id := string(bytes.TrimSpace(text))
	if id == "" {
		return "", errors.New("boot id is empty: is /proc/sys mounted?")
	}
	return id, nil
}

// BootID returns the kernel's name for this boot. Pids and start times mean nothing
// outside of it.
func (m *Machine) BootID() (string, error) {
	id, err := read(m.proc+"/sys/kernel/random/boot_id", ParseBootID)
	if err != nil {
		return "", fmt.Errorf("tell this boot from others: %w", err)
	}
	return id, nil
}

// BootTime returns the time since boot, suspension included: the clock that no one sets
// and that every process of this machine shares.
func BootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("hostmem: the kernel refuses CLOCK_BOOTTIME, which Linux has had since 2.6.39: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
