package ledger

import "strings"

// What the ids begin with of admissions that no store knows of.
const (
	// LocalPrefix: admitted by a host itself, at its own boot seam.
	LocalPrefix = "local:"
	// ByHostPrefix: placed by a replica, and recorded by that host alone.
	ByHostPrefix = "hst-"
)

// Stored says whether an id may be one of a store's.
func Stored(id string) bool {
	return !strings.HasPrefix(id, LocalPrefix) && !strings.HasPrefix(id, ByHostPrefix)
}
