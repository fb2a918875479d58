package hostmem

import (
	"errors"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Meminfo is what the machine as a whole has.
type Meminfo struct {
	Total      gate.Bytes // what the kernel manages
	Available  gate.Bytes // what new work can have without swapping
	SwapTotal  gate.Bytes
	SwapFree   gate.Bytes
	SwapCached gate.Bytes // swapped out and back in memory: counted there already
}

// Swapped is what was swapped out and would need memory again to be touched.
func (m Meminfo) Swapped() gate.Bytes {
	return m.SwapTotal.Sub(m.SwapFree).Sub(m.SwapCached).Positive()
}

// Used is what counts against Total.
func (m Meminfo) Used() gate.Bytes {
	return m.Total.Sub(m.Available).Positive().Add(m.Swapped())
}

// ParseMeminfo reads /proc/meminfo:
//
//	MemTotal:       24684084 kB
//	MemFree:        24334232 kB
//	MemAvailable:   24329704 kB
//	SwapCached:            0 kB
//	SwapTotal:             0 kB
//	SwapFree:              0 kB
//
// Where MemAvailable is missing (before Linux 3.14) only MemFree counts as available:
// what cannot be told reclaimable is not promised.
func ParseMeminfo(text []byte) (Meminfo, error) {
	var m Meminfo
	var free gate.Bytes
	known := false
	eachLine(text, func(key, rest []byte) {
		switch string(key) {
		case "MemTotal:":
			setBytes(&m.Total, rest, gate.KiB)
		case "MemFree:":
			setBytes(&free, rest, gate.KiB)
		case "MemAvailable:":
			known = setBytes(&m.Available, rest, gate.KiB)
		case "SwapTotal:":
			setBytes(&m.SwapTotal, rest, gate.KiB)
		case "SwapFree:":
			setBytes(&m.SwapFree, rest, gate.KiB)
		case "SwapCached:":
			setBytes(&m.SwapCached, rest, gate.KiB)
		}
	})
	if !known {
		m.Available = free
	}
	if m.Total <= 0 {
		return Meminfo{}, errors.New("meminfo holds no MemTotal: is /proc mounted, and the kernel's own?")
	}
	return m, nil
}
