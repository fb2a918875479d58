package cli

import (
	"os"
	"runtime/debug"
)

// heapGrowth is how much of what lives may be garbage, in percent, before it is collected.
const heapGrowth = 300

// RoomyHeap is for a process that answers calls: each leaves garbage behind, and little lives. To
// collect it a third as often as Go does by default saves some six of 43 µs of processor an
// admission, and costs memory: up to four times what lives instead of twice. GOGC overrules it, and
// below a GOMEMLIMIT the runtime collects as often as it must.
func RoomyHeap() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}
