package admission

// This file is about memory that is set aside for the first waiter of a kind that finds no
// host again and again: small asks would else take each piece that comes free before it.

// standFor looks for the host where memory is set aside, before the waiter is told to wait.
func (p *Passage) standFor(told Answer) Step {
	told.Tally = p.tally
	p.waiting = &told
	return p.next(Effect{Do: PickStand, Host: p.row.StandAt})
}

func (p *Passage) standPicked(e StandPicked) Step {
	if e.Host == "" {
		return p.next(Effect{Do: Reply, Reply: p.waiting})
	}
	p.standing = e.Host
	return p.next(Effect{Do: Stand, Host: e.Host, ID: p.row.ID})
}

// stood notes the host for whichever replica takes the next attempt. One that did not take
// it is forgotten, so that another is asked then.
func (p *Passage) stood(e Stood) Step {
	at := p.standing
	if !e.OK {
		at = ""
	}
	if at == p.row.StandAt {
		return p.next(Effect{Do: Reply, Reply: p.waiting})
	}
	return p.next(Effect{Do: NoteStand, Host: at, ID: p.row.ID})
}
