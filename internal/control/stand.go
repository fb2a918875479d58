package control

import (
	"context"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// pickOwn looks only at the host where memory is set aside for this waiter, whose room
// nobody here knows: it is asked if it can be, and charged for nothing. g.mu must be held.
func (d *driving) pickOwn(id string) admission.Event {
	d.charge = table.Charge{}
	if g := d.gateway; !d.allows(id) || !g.table.Eligible(id, &d.req.Ask, g.Now()) {
		return admission.Picked{}
	}
	return admission.Picked{Host: id}
}

// allows says whether the request may go to a host at all.
func (d *driving) allows(id string) bool { return d.pin.Require == "" || d.pin.Require == id }

// pickStand chooses where memory is set aside. A host that is demanded is the only one.
func (d *driving) pickStand(e admission.Effect) admission.Event {
	g := d.gateway
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := d.pin.Require; at != "" {
		if !g.table.Eligible(at, &d.req.Ask, g.Now()) {
			at = ""
		}
		return admission.StandPicked{Host: at}
	}
	at, _ := g.table.PickStand(&d.req.Ask, e.Host, g.Now())
	return admission.StandPicked{Host: at}
}

// unstand lets a host use again what it sets aside for a waiter that has gone. It would end by
// itself; what is not heard does.
func (g *Gateway) unstand(ctx context.Context, row pool.Row) {
	link, _, silent := g.link(row.StandAt)
	if row.StandAt == "" || silent {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	if answer, err := link.Do(ctx, host.Unstand{ID: row.ID}); err == nil {
		g.observe(answer.Verdict)
	}
}

// stand asks a host to set memory aside, for a little longer than until the next attempt.
func (d *driving) stand(ctx context.Context, e admission.Effect) admission.Event {
	g := d.gateway
	link, last, silent := g.link(e.Host)
	if silent {
		return admission.Stood{}
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answer, err := link.Do(ctx, host.Stand{
		ID: e.ID, Ask: d.req.Ask, Until: last.At + host.StandFor, Incarnation: last.Incarnation,
	})
	if err != nil {
		return admission.Stood{}
	}
	g.observe(answer.Verdict)
	return admission.Stood{OK: answer.Denial == ""}
}
