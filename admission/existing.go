package admission

import (
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// existing answers for a key that is admitted already. One that runs needs nothing, unless
// its host keeps its place for a restart; of an unbooted one the host is asked to keep the
// reservation, which tells whether it is there. Without a host the store alone is asked.
func (p *Passage) existing() Step {
	switch {
	case p.row.Audience != "":
		return p.next(Effect{Do: Hear, ID: p.row.ID, Gen: p.row.Epoch})
	case p.row.State == pool.Running && !p.row.HoldOnExit:
		return p.reply(Answer{Kind: Yes, Row: p.row})
	}
	return p.next(Effect{Do: Keep, Host: p.row.Host, ID: p.row.ID, Gen: p.row.Epoch})
}

func (p *Passage) heard(e Heard) Step {
	switch {
	case e.Failed:
		return p.unavailable()
	case !e.OK:
		return p.next(Effect{Do: Read, ID: p.row.ID})
	}
	p.row = e.Row
	return p.reply(Answer{Kind: Yes, Row: p.row})
}

func (p *Passage) keptOn(e Kept) Step {
	switch {
	case e.Failed:
		return p.unavailable()
	case e.Gone:
		return p.next(Effect{Do: Read, ID: p.row.ID})
	case p.row.State == pool.Running:
		return p.keptRunning(e)
	case e.Silent:
		return p.behindSilence()
	case e.Unknown:
		return p.reply(Answer{Kind: No, Code: api.HostSilent, Row: p.row, Detail: "host " + p.row.Host + " did not answer"})
	case e.Answer.Running:
		return p.reply(Answer{Kind: Yes, Row: p.row})
	case e.Answer.Denial == host.OtherLife:
		return p.otherLife()
	case e.Answer.Denial != "":
		return p.moveFrom(api.ReservationLapsed, true)
	case e.Answer.Verdict.Intake == host.IntakeDraining:
		return p.leaveDraining()
	}
	p.row = e.Row
	return p.reply(Answer{Kind: Yes, Row: p.row})
}

// keptRunning answers for one that ran when it was last heard of, and that may have been
// re-opened for a restart since. What its host does not hold any more is on its way to its
// end, and nothing is placed before that is written.
func (p *Passage) keptRunning(e Kept) Step {
	if !e.Silent && !e.Unknown && !e.Answer.Running && e.Answer.Denial != "" && e.Answer.Denial != host.OtherLife {
		return p.reply(Answer{Kind: No, Code: api.ReservationLapsed, Row: p.row, Detail: "host " + p.row.Host + " does not hold it any more"})
	}
	if e.Row.ID != "" {
		p.row = e.Row
	}
	return p.reply(Answer{Kind: Yes, Row: p.row})
}

// otherLife asks again, once: this replica asked by the clock of a life that the host has left
// behind, so its no says nothing of the reservation, which another replica may have made in
// the new life. That answer brought the new life's word along.
func (p *Passage) otherLife() Step {
	if p.reborn {
		return p.reply(Answer{Kind: No, Code: api.HostSilent, Row: p.row, Detail: "host " + p.row.Host + " started anew, and was not heard since"})
	}
	p.reborn = true
	return p.next(Effect{Do: Keep, Host: p.row.Host, ID: p.row.ID, Gen: p.row.Epoch})
}

// behindSilence moves a stateless admission once its reservation must have lapsed; the
// store judges that by its own clock. A stateful one may be running there.
func (p *Passage) behindSilence() Step {
	if p.row.Stateful {
		return p.reply(Answer{Kind: No, Code: api.HostSilent, Row: p.row, Detail: "host " + p.row.Host + " is silent, and this admission is stateful"})
	}
	return p.moveFrom(api.HostSilent, false)
}

// leaveDraining asks the draining host to let go before anything is placed elsewhere.
func (p *Passage) leaveDraining() Step {
	if p.req.Keep {
		return p.reply(Answer{Kind: No, Code: api.HostDraining, Row: p.row})
	}
	return p.next(Effect{Do: Vacate, Host: p.row.Host, ID: p.row.ID, Gen: p.row.Epoch})
}

func (p *Passage) vacated(e Vacated) Step {
	switch {
	case e.Unknown:
		return p.reply(Answer{Kind: No, Code: api.HostSilent, Row: p.row, Detail: "host " + p.row.Host + " did not answer"})
	case e.Running:
		return p.reply(Answer{Kind: Yes, Row: p.row})
	}
	return p.moveFrom(api.HostDraining, true)
}

// moveFrom places the admission anew. A heartbeat only says why it should be, and a
// second move within one passage would be a host that lapses faster than it promises.
func (p *Passage) moveFrom(why api.Code, acked bool) Step {
	if p.req.Keep || p.moved {
		return p.reply(Answer{Kind: No, Code: why, Row: p.row})
	}
	p.moved = true
	return p.next(Effect{Do: Move, ID: p.row.ID, Gen: p.row.Epoch, Acked: acked})
}

func (p *Passage) movedOn(e Moved) Step {
	switch {
	case e.Failed:
		return p.unavailable()
	case e.OK:
		p.row = e.Row
		return p.place()
	case e.Row.State == pool.Admitted && e.Row.Epoch == p.row.Epoch:
		return p.reply(Answer{Kind: No, Code: api.HostSilent, Row: e.Row, Detail: "host " + e.Row.Host + " is silent, and the reservation there may still stand"})
	}
	return p.next(Effect{Do: Read, ID: p.row.ID})
}
