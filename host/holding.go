package host

import (
	"github.com/plimsoll-project/plimsoll/digest"
	"github.com/plimsoll-project/plimsoll/ledger"
)

// Holding sums up what a host holds of a store's admissions, so that a replica can tell
// without asking whether the store says the same: not what the host admitted, let in without
// a ticket, or records by itself, nor what it was told to stop.
type Holding struct {
	Told     bool       // the agent is of a version that says it
	Reserved digest.Sum // open reservations
	Booting  digest.Sum // redeemed, and not tracked yet
	Running  digest.Sum
	Untold   int64 // ends that no replica has written yet, and deeds that are not in the audit
}

// Holding returns it.
func (h *Host) Holding() Holding {
	return Holding{
		Told: true, Reserved: h.ledger.Digest(), Booting: h.booting, Running: h.running,
		Untold: int64(len(h.ends) + len(h.deeds)),
	}
}

// digest puts a sandbox into the sum that it belongs to now, or takes it out of there.
func (h *Host) digest(s *Sandbox, sign int64) {
	switch {
	case s.Stopping || s.Waiver != "" || !ledger.Stored(s.ID):
	case s.Phase == Running:
		h.running.Add(s.Epoch, sign)
	default:
		h.booting.Add(s.Epoch, sign)
	}
}
