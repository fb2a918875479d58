package sim

import (
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// standing is how long memory is set aside for a waiter that is not heard of again, and how
// long one looks for a host in vain before that.
const standing = 10 * time.Second

// pickOwn looks at the host where memory is set aside for this waiter, whose room nobody here
// knows: it is asked if it can be, and charged for nothing.
func (d *driving) pickOwn(id string) {
	d.charge = table.Charge{}
	if r := d.replica; !r.table.Eligible(id, &d.req.Ask, r.fleet.now) {
		id = ""
	}
	d.feed(admission.Picked{Host: id})
}

func (d *driving) pickStand(e admission.Effect) {
	if !d.duties.starved {
		d.replica.fleet.violate(order, "memory is to be set aside for %s, which does not starve", d.req.Claim.ID)
	}
	at, _ := d.replica.table.PickStand(&d.req.Ask, e.Host, d.replica.fleet.now)
	d.duties.stands = true
	d.feed(admission.StandPicked{Host: at})
}

// stand asks a host to set memory aside.
func (d *driving) stand(e admission.Effect) {
	r := d.replica
	if r.silent(e.Host) {
		d.feed(admission.Stood{})
		return
	}
	last := r.last[e.Host].verdict
	ev := host.Stand{ID: e.ID, Ask: d.req.Ask, Until: last.At + host.StandFor, Incarnation: last.Incarnation}
	d.ask(e.Host, ev, func(a host.Answer, unknown bool) {
		d.duties.stood = !unknown && a.Denial == ""
		d.feed(admission.Stood{OK: d.duties.stood})
	})
}

// noteStand writes where memory is set aside, which must be so.
func (d *driving) noteStand(e admission.Effect) {
	if e.Host != "" && !d.duties.stood {
		d.replica.fleet.violate(order, "%s is noted to have memory set aside on %s, which did not say so", e.ID, e.Host)
	}
	d.on(write(e.Do.String()), func(m *pool.Model) { m.Stand(e.ID, e.Host) }, func(bool) { d.feed(admission.StandNoted{}) })
}

// checkStand judges what a host sets aside: for one waiter at a time, which has nothing there,
// while it is open for placing, and not for long.
func (f *Fleet) checkStand(a *agent, e host.Stand, got host.Answer) {
	w, now := a.witness, a.clock()
	free := w.aside.id == "" || w.aside.id == e.ID
	if got.Denial != "" {
		if got.Denial == host.StandTaken && free {
			f.violate(refusals, "host %s says that it has memory set aside for another than %s, and has for %q", a.id, e.ID, w.aside.id)
		}
		return
	}
	switch {
	case !free:
		f.violate(promised, "host %s sets memory aside for %s, and for %s", a.id, e.ID, w.aside.id)
	case w.promised(e.ID) != nil || w.running(e.ID) != nil:
		f.violate(promised, "host %s sets memory aside for %s, which has its place there", a.id, e.ID)
	case w.order != host.IntakeOpen:
		f.violate(promised, "host %s is %s, and sets memory aside for %s", a.id, w.order, e.ID)
	case e.Until <= now || e.Incarnation != a.incarnation:
		f.violate(ends, "host %s sets memory aside for %s, whose time is over, or was read off another life's clock", a.id, e.ID)
	case got.Until > max(now+standing, w.aside.until):
		f.violate(ends, "host %s sets memory aside for %s for %v", a.id, e.ID, got.Until-now)
	}
	w.aside = aside{id: e.ID, need: needOf(e.Ask, a.cfg.Mode), until: got.Until}
}

// vain is since when a waiter has looked for a host in vain, and when it last did.
type vain struct{ since, last pool.Time }

// noRoom takes a slot back for which no host was found, and notes whether its waiter starves:
// it is there, and the first of its kind that is, and has found none for so long.
func (d *driving) noRoom(gen int64) pool.Claimed {
	f, id := d.replica.fleet, d.req.Claim.ID
	l := &f.store.loads
	old := l.seen[id]
	l.count(&old, -1)
	first := f.outlook(pool.Row{State: pool.Waiting, Place: old.Place}, old).same == ""
	l.count(&old, 1)
	got := f.model().NoRoom(id, gen, true, d.req.Claim.Present)
	if got.Verdict != pool.Queued {
		return got
	}
	now, v := f.model().Now(), f.book.vain[id]
	if v.last == 0 || now.Since(v.last) >= standing {
		v.since = now
	}
	v.last = now
	f.book.vain[id] = v
	d.duties.starved = first && got.Row.PresentUntil != 0 && now.Since(v.since) >= standing
	return got
}

// checkStands proves, when a waiter is told to wait for a host, that somebody looks for where
// memory could be set aside for it, if it starves.
func (d *driving) checkStands(a admission.Answer) {
	if f := d.replica.fleet; a.Kind == admission.Wait && d.duties.starved && !d.duties.stands && !d.duties.lost {
		f.violate(order, "%s starves, and nobody looks for a host that sets memory aside for it", d.req.Claim.ID)
	}
}

// checkOwn proves that a waiter is not told to wait for a host while one sets memory aside for
// it that was there all the time.
func (d *driving) checkOwn(a admission.Answer) {
	f := d.replica.fleet
	h := f.byID[d.duties.standAt]
	if h == nil || a.Kind != admission.Wait || len(a.Tally) == 0 || h.witness.aside.id != d.req.Claim.ID {
		return
	}
	last := d.replica.last[h.id]
	said := last.verdict.Incarnation == h.incarnation && last.verdict.Intake == host.IntakeOpen && last.at <= d.began && f.now-last.at < silentAfter
	if own := h.own; own.has && own.at <= d.began && said && !otherwiseRefused(a.Tally, h, d.req.Claim.ID) {
		f.violate(refusals, "%s is told to wait for a host while %s has what it set aside for it since %.3fs: %v", d.req.Claim.ID, h.id, own.at.Seconds(), a.Tally)
	}
}

// noteOwn keeps since when a host has room for the waiter that it sets memory aside for.
func (a *agent) noteOwn() {
	w := a.witness
	has := w.aside.id != "" && a.up && a.host.Intake() == host.IntakeOpen && w.roomFor(w.aside.id, a.cfg.Mode)/gate.MiB*gate.MiB >= w.aside.need
	if a.own.has != has || a.ownID != w.aside.id {
		a.own, a.ownID = roomSince{has: has, at: a.fleet.now}, w.aside.id
	}
}
