package host

import (
	"strings"

	"github.com/plimsoll-project/plimsoll/ledger"
)

// LocalPrefix starts the id of whatever a host admitted by itself, at its own boot seam. No
// store knows of it, so that it is in no list that a replica compares with one, and its end
// is told to nobody: it counts as memory, and as nothing else. The ids of stores and of
// hosts' own records never begin so.
const LocalPrefix = ledger.LocalPrefix

// Local says whether an id is of something that the host admitted by itself.
func Local(id string) bool { return strings.HasPrefix(id, LocalPrefix) }
