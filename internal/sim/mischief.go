package sim

import (
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// What nobody should do, and somebody does now and then in a history that a seed draws: each
// must come to nothing.

// promiseFor is how long a replica asks a host to hold a reservation. One that miscounts asks
// for a day, or for a moment that is over before the store has its answer.
func (f *Fleet) promiseFor() time.Duration {
	switch {
	case !f.rough:
	case f.chance(1):
		return 24 * time.Hour
	case f.chance(1):
		return f.between(0, 10*time.Millisecond)
	}
	return bootWithin
}

// abandoned says whether a passage comes to nothing between the host's answer and the store:
// its handler died, its replica lives on, and its caller's connection breaks.
func (d *driving) abandoned() bool {
	f := d.replica.fleet
	if !f.rough || !f.chance(2) {
		return false
	}
	d.done(admission.Answer{Kind: admission.No, Code: api.Unavailable})
	return true
}

// stall holds a write back until its row is claimed again, as one does that waits for a lock,
// or for as long as a connection may.
func (f *Fleet) stall(id string, percent int, do func()) {
	if !f.rough || !f.chance(percent) {
		do()
		return
	}
	f.stalled[id] = append(f.stalled[id], do)
	f.after(f.between(time.Second, 25*time.Second), func() { f.unstall(id) })
}

// meanwhile has the caller of an admission ask anew, just as something is being written of it.
func (f *Fleet) meanwhile(id string) {
	for _, c := range f.callers {
		if "a-"+c.key == id && f.rough && !c.gone && f.chance(60) {
			f.after(f.between(0, time.Second), c.create)
		}
	}
}

func (f *Fleet) unstall(id string) {
	held := f.stalled[id]
	delete(f.stalled, id)
	for _, do := range held {
		do()
	}
}

// hurry lets what else was about to happen at a host come just before a frame: an operator's
// order before a reserve, a boot before the release that was to prevent it.
func (a *agent) hurry(ev host.Event) {
	switch e := ev.(type) {
	case host.Reserve:
		if copied := a.copies[e.ID]; copied != nil {
			delete(a.copies, e.ID)
			a.fleet.after(2*time.Millisecond, func() { a.awakeNow(func() { a.step(copied) }) })
		}
		a.keep(e.ID, ev)
		a.endSoon(e.ID)
		if soon := a.soon; soon != nil {
			a.soon = nil
			soon()
		}
	case host.Renew:
		a.keep(e.ID, ev)
	case host.Stand:
		a.keep(e.ID, ev)
	case host.Release:
		a.keep(e.ID, ev)
		ref := host.Ref{ID: e.ID, Epoch: e.Gen}
		if boot := a.booters[ref]; boot != nil && a.fleet.chance(20) {
			delete(a.booters, ref)
			if a.witness.order == host.IntakeDraining {
				a.order(host.IntakeOpen) // its operator thinks better of it, and nobody knows yet
			}
			boot()
		}
	}
}

// endSoon has what runs under an id end by itself just after somebody asks for it anew.
func (a *agent) endSoon(id string) {
	if c := a.witness.running(id); c != nil && a.fleet.rough && a.fleet.chance(50) {
		ref := host.Ref{ID: id, Epoch: c.epoch}
		a.fleet.after(2*time.Millisecond, func() { a.exit(ref, "ended by itself") })
	}
}

// repeat tells a replica once more, long afterwards, that a place was kept.
func (a *agent) repeat(r *replica, n host.News) {
	if len(n.Reopens) > 0 && a.fleet.rough && a.fleet.chance(10) {
		a.fleet.after(a.fleet.between(10*time.Second, 2*time.Minute), func() { r.hear(a, n) })
	}
}

// keep holds a copy of a frame back: it comes just after the next reserve for the same id.
func (a *agent) keep(id string, ev host.Event) {
	if a.fleet.rough && a.fleet.chance(3) {
		a.copies[id] = ev
	}
}

// tamper has a ticket redeemed that is not what was minted, or at a host that it is not for.
func (f *Fleet) tamper(a *agent, text ticket.Text) {
	if !f.rough || !f.chance(3) {
		return
	}
	at := f.agents[f.rand.IntN(len(f.agents))]
	if at == a {
		forged := []byte(text)
		i := len(forged) - 1 - f.rand.IntN(20) // in the MAC
		forged[i] = 'A' + (forged[i]+1)%26
		text = ticket.Text(forged)
	}
	f.after(f.between(time.Millisecond, 5*time.Second), func() {
		at.awakeNow(func() {
			if _, err := at.keys.Verify(text, ticket.Expect{Audience: at.id}); err == nil {
				f.violate(boots, "host %s takes a ticket that is forged, or for %s", at.id, a.id)
			}
		})
	})
}

// order is an operator's word to a host.
func (a *agent) order(to host.Intake) {
	a.awake(func() { a.step(host.SetIntake{Intake: to}) })
}
