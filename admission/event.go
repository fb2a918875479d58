package admission

import (
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Event is the result of an effect. Failed means that the store's outcome is unknown: it
// may have been persisted. Unknown means that the host's is.
type Event interface{ event() }

// Claimed answers Claim.
type Claimed struct {
	Result pool.Claimed
	Failed bool
}

// Picked answers Pick; no Host means that none was found, and the tally says why. The ID is
// the one that this host is to be asked under, where it alone records the admission.
type Picked struct {
	Host  string
	ID    string
	Tally Tally
}

// Reserved answers Reserve.
type Reserved struct {
	Denial  host.Denial
	Unknown bool
}

// Regened answers Regen; a zero Gen means that the row went on without this passage.
type Regened struct {
	Gen    int64
	Failed bool
}

// Settled answers Settle with the row as it is now.
type Settled struct {
	Row    pool.Row
	OK     bool
	Failed bool
}

// NoRoomed answers NoRoom.
type NoRoomed struct {
	Result pool.Claimed
	Failed bool
}

// Kept answers Keep. Silent means that the host was not asked, because it has not been
// heard: then nothing was renewed either, or its reservation would never lapse.
type Kept struct {
	Row     pool.Row
	Gone    bool // the row is not admitted at that epoch any more
	Answer  host.Answer
	Silent  bool
	Unknown bool
	Failed  bool
}

// Heard answers Hear with the row as it is now; OK is false when it holds no slot of that
// epoch any more.
type Heard struct {
	Row    pool.Row
	OK     bool
	Failed bool
}

// StandPicked answers PickStand; no Host means that no host could hold it.
type StandPicked struct{ Host string }

// Stood answers Stand.
type Stood struct{ OK bool }

// StandNoted answers NoteStand, whatever came of it: the next attempt looks again.
type StandNoted struct{}

// Vacated answers Vacate.
type Vacated struct {
	Running bool
	Unknown bool
}

// Moved answers Move with the row as it is now.
type Moved struct {
	Row    pool.Row
	OK     bool
	Failed bool
}

// RowRead answers Read.
type RowRead struct {
	Row    pool.Row
	Found  bool
	Failed bool
}

// Left answers Leave with the row as it is now, and the store's time.
type Left struct {
	Row    pool.Row
	Found  bool
	Now    pool.Time
	Failed bool
}

// Ended answers End.
type Ended struct {
	Row    pool.Row
	Failed bool
}

// Swept answers Sweep: the table has what the hosts said.
type Swept struct{}

// Paused answers Pause.
type Paused struct{}

func (Heard) event()       {}
func (StandPicked) event() {}
func (Stood) event()       {}
func (StandNoted) event()  {}
func (Claimed) event()     {}
func (Picked) event()      {}
func (Reserved) event()    {}
func (Regened) event()     {}
func (Settled) event()     {}
func (NoRoomed) event()    {}
func (Kept) event()        {}
func (Vacated) event()     {}
func (Moved) event()       {}
func (RowRead) event()     {}
func (Left) event()        {}
func (Ended) event()       {}
func (Swept) event()       {}
func (Paused) event()      {}
