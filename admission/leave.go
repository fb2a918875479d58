package admission

import (
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/pool"
)

// The further effects of a departure.
const (
	Leave Do = iota + 100 // Store.Leave
	End                   // Store.End as released
)

// Departure is the way out: host, then store. What no host holds is free at once; an
// unbooted one when its host acknowledged; a running one when its host says it is gone.
type Departure struct {
	id  string
	of  pool.Passage
	row pool.Row
	now pool.Time
}

// NewDeparture returns the release of one passage of an admission.
func NewDeparture(id string, of pool.Passage) *Departure { return &Departure{id: id, of: of} }

// Begin asks the store to note that the caller wants out.
func (d *Departure) Begin() Effect { return Effect{Do: Leave, ID: d.id, Of: d.of} }

// Step takes the result of the last effect.
func (d *Departure) Step(ev Event) Effect {
	switch e := ev.(type) {
	case Left:
		return d.left(e)
	case Vacated:
		return d.vacated(e)
	case Ended:
		if e.Failed {
			return d.reply(Answer{Kind: Going, Row: d.row})
		}
		return d.reply(Answer{Kind: Gone, Row: e.Row})
	}
	return d.reply(Answer{Kind: No, Code: api.Internal, Detail: "an event that nothing asked for"})
}

func (d *Departure) left(e Left) Effect {
	d.row, d.now = e.Row, e.Now
	switch {
	case e.Failed:
		return d.reply(Answer{Kind: No, Code: api.Unavailable, Detail: "the store did not answer"})
	case !e.Found && e.Row.ID != "":
		return d.reply(Answer{Kind: No, Code: api.Unavailable, Row: e.Row, Detail: "it was placed, or its key asked for anew, while this call was under way; release it again"})
	case !e.Found:
		return d.reply(Answer{Kind: No, Code: api.NotFound, Detail: "no admission has this key"})
	case e.Row.State == pool.Releasing:
		return Effect{Do: Vacate, Host: e.Row.Host, ID: e.Row.ID, Gen: e.Row.Epoch}
	}
	return d.reply(Answer{Kind: Gone, Row: e.Row})
}

// vacated ends the row when the host let go, or when it cannot be asked and a stateless
// reservation there must have lapsed. Otherwise the row stays releasing, and is asked
// about again until its host has spoken.
func (d *Departure) vacated(e Vacated) Effect {
	lapsed := !d.row.Stateful && !d.row.Booted() && d.now > d.row.ReservedUntil
	if (!e.Unknown && !e.Running) || (e.Unknown && lapsed) {
		return Effect{Do: End, ID: d.row.ID, Gen: d.row.Epoch}
	}
	return d.reply(Answer{Kind: Going, Row: d.row})
}

func (d *Departure) reply(a Answer) Effect { return Effect{Do: Reply, Reply: &a} }
