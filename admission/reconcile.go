package admission

import (
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Mismatch is what the store and a host say differently of one placement. Each has one
// remedy, which is guarded by the epoch, so that carrying it out late or twice does nothing.
type Mismatch string

// The mismatches.
const (
	Agreed       Mismatch = ""
	Unheld       Mismatch = "unheld"        // reserved by the store, and the host holds nothing of it: it lapsed
	EndUnseen    Mismatch = "end_unseen"    // running or releasing by the store, and the host has nothing of it: it ended
	BootUnseen   Mismatch = "boot_unseen"   // it runs, and the store has only the reservation
	ReopenUnseen Mismatch = "reopen_unseen" // it ended and is kept for a restart, and the store has it running
	Unreleased   Mismatch = "unreleased"    // the host still holds what its caller gave back
	LostAlive    Mismatch = "lost_alive"    // it runs on a host that was taken for dead, and nobody superseded it
	Superseded   Mismatch = "superseded"    // it runs, or is reserved, and has ended or moved in the store
	Stranded     Mismatch = "stranded"      // the same, and it is stateful: only a person may stop it
	Unknown      Mismatch = "unknown"       // it runs, or is reserved, and the store knows no such admission
)

// CompareRow judges a row that the store has on a host by that host's later word.
func CompareRow(r *pool.Row, reserved, running bool) Mismatch {
	switch {
	case !reserved && !running && (r.Booted() || r.State == pool.Releasing):
		return EndUnseen
	case !reserved && !running:
		return Unheld
	case r.State == pool.Releasing:
		return Unreleased
	case running && r.State == pool.Admitted:
		return BootUnseen
	case reserved && r.State == pool.Running && r.HoldOnExit:
		return ReopenUnseen
	}
	return Agreed
}

// CompareHeld judges what a host holds, and what the store by an older word had not there,
// by the store's newest. Of what the host alone records the store has nothing to say.
func CompareHeld(at string, held host.Ref, stateful, running bool, r *pool.Row) Mismatch {
	switch {
	case r == nil && OfHost(held.ID, at):
		return Agreed
	case r == nil:
		return Unknown
	case r.Epoch == held.Epoch && r.State == pool.Lost && running:
		return LostAlive
	case r.Epoch == held.Epoch && r.State.OnHost() && r.Host == at, r.Epoch < held.Epoch:
		return Agreed // admitted meanwhile, or not settled yet
	case r.Epoch == held.Epoch && !r.State.Ended() && !r.State.OnHost():
		return Agreed // being moved, or waiting under a key that started anew: its next placing supersedes this
	case stateful && running:
		return Stranded
	}
	return Superseded
}
