package admission

import (
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Alike says whether a host and the store hold the same of each other, as far as their sums
// tell. What boots is reserved by the store until its boot is written; a reconciliation meanwhile
// writes all of them. What is being released is always worth a look: whoever released it may
// be gone, and so may it. So is what the host told and nobody wrote.
func Alike(h *host.Holding, s *pool.Holding) bool {
	if h.Untold > 0 || s.Releasing.N > 0 {
		return false
	}
	return (s.Admitted == h.Reserved.Plus(h.Booting) && s.Running == h.Running) ||
		(s.Admitted == h.Reserved && s.Running == h.Running.Plus(h.Booting))
}
