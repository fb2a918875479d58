package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// driving is one production passage on a replica. When the replica dies, or is never heard
// again, its caller learns nothing.
type driving struct {
	replica *replica
	life    int
	req     admission.Request
	passage *admission.Passage
	began   time.Duration
	charge  table.Charge
	duties  duties
	done    func(admission.Answer)
}

// drive runs a passage to its answer.
func (r *replica) drive(req admission.Request, done func(admission.Answer)) {
	d := &driving{
		replica: r, life: r.life, req: req, passage: admission.New(admission.DefaultConfig(), req),
		began: r.fleet.now, done: done, duties: newDuties(),
	}
	d.follow(d.passage.Begin(r.fleet.now))
}

func (d *driving) follow(s admission.Step) {
	f := d.replica.fleet
	if s.Detached != nil {
		e := *s.Detached
		d.detached(e)
		f.byID[e.Host].ask(d.replica, host.Release{ID: e.ID, Gen: e.Gen}, func(host.Answer) {})
	}
	if !f.orders.about(d.replica, d.req.Claim.ID, doing(s.Effect.Do)) {
		return
	}
	if s.Effect.Do == admission.Reply {
		d.over()
		f.checkAnswer(d, *s.Effect.Reply)
		d.checkStands(*s.Effect.Reply)
		d.checkOwn(*s.Effect.Reply)
		d.checkHeld(*s.Effect.Reply)
		d.done(*s.Effect.Reply)
		return
	}
	f.tell("%s on replica %d: %s%s", d.req.Claim.Key, d.replica.index+1, s.Effect.Do, at(s.Effect))
	d.perform(s.Effect)
	f.orders.began(d.replica, d.req.Claim.ID, doing(s.Effect.Do))
}

// doing is the name of an effect, as the package's picture of a passage has it.
func doing(do admission.Do) string {
	if do == admission.Vacate {
		return string(frameRelease)
	}
	return do.String()
}

// at says where and under which generation, for the transcript.
func at(e admission.Effect) string {
	switch {
	case e.Host != "":
		return fmt.Sprintf(" at %s, generation %d", e.Host, e.Gen)
	case len(e.Exclude) > 0:
		return fmt.Sprint(" without ", e.Exclude)
	}
	return ""
}

// feed gives the passage its event, if the replica that drives it still lives.
func (d *driving) feed(ev admission.Event) {
	d.replica.awake(d.life, func() { d.follow(d.passage.Step(d.replica.fleet.now, ev)) })
}

// on carries out a transition on the row of this passage.
func (d *driving) on(what write, do func(m *pool.Model), then func(failed bool)) {
	f := d.replica.fleet
	d.replica.transact(what, func() { do(f.model()); f.store.touched(d.req.Claim.ID) }, func(failed bool) {
		d.duties.lost = d.duties.lost || failed
		then(failed)
	})
}

func (d *driving) perform(e admission.Effect) {
	switch e.Do {
	case admission.Claim:
		clear(d.duties.mute) // looks for a host anew, as after a move
		var c pool.Claimed
		d.on(write(e.Do.String()), func(*pool.Model) { c = d.replica.fleet.claim(d.req.Claim); d.duties.standAt = c.Row.StandAt }, func(failed bool) { d.feed(admission.Claimed{Result: c, Failed: failed}) })
	case admission.Pick:
		d.pick(e)
	case admission.Reserve:
		d.reserve(e)
	case admission.Regen:
		var gen int64
		d.on(write(e.Do.String()), func(m *pool.Model) { gen = m.Regen(e.ID, e.Gen) }, func(failed bool) { d.feed(admission.Regened{Gen: gen, Failed: failed}) })
	case admission.Settle:
		var ev admission.Settled
		d.replica.fleet.stall(e.ID, 2, func() {
			d.on(write(e.Do.String()), func(m *pool.Model) { ev.Row, ev.OK = m.Settle(e.ID, e.Gen, e.Host, bootWithin) }, func(failed bool) { d.settled(ev.Row); ev.Failed = failed; d.feed(ev) })
		})
	case admission.PickStand:
		d.pickStand(e)
	case admission.Stand:
		d.stand(e)
	case admission.NoteStand:
		d.noteStand(e)
	case admission.NoRoom:
		var c pool.Claimed
		d.on(write(e.Do.String()), func(*pool.Model) { c = d.noRoom(e.Gen) }, func(failed bool) { d.feed(admission.NoRoomed{Result: c, Failed: failed}) })
	case admission.Keep:
		d.keep(e)
	case admission.Hear:
		var ev admission.Heard
		d.on(write(e.Do.String()), func(*pool.Model) { ev.Row, ev.OK = d.replica.fleet.hear(e.ID, e.Gen) }, func(failed bool) { ev.Failed = failed; d.feed(ev) })
	case admission.Vacate:
		d.vacate(e.Host, e.ID, e.Gen, func(v admission.Vacated) { d.feed(v) })
	case admission.Move:
		clear(d.duties.mute)
		var ev admission.Moved
		d.on(write(e.Do.String()), func(m *pool.Model) { ev.Row, ev.OK = d.replica.fleet.move(m, e) }, func(failed bool) { ev.Failed = failed; d.feed(ev) })
	case admission.Read:
		var ev admission.RowRead
		d.on(write(e.Do.String()), func(m *pool.Model) { ev.Row, ev.Found = m.ByID(e.ID) }, func(failed bool) { ev.Failed = failed; d.feed(ev) })
	case admission.Sweep:
		d.sweep()
	case admission.Pause:
		d.replica.fleet.after(admission.DefaultConfig().Pause, func() { d.feed(admission.Paused{}) })
	}
}

func (d *driving) pick(e admission.Effect) {
	r := d.replica
	d.duties.looked = r.fleet.now
	if e.Host != "" {
		d.pickOwn(e.Host)
		return
	}
	opts := table.PickOptions{Exclude: slices.Clone(e.Exclude), Rand: r.fleet.rand.Uint64(), Gross: e.Last}
	c, ok := r.table.Pick(r.fleet.now, &d.req.Ask, &opts)
	if !ok {
		d.feed(admission.Picked{Tally: tallyOf(r.table.Explain(r.fleet.now, &d.req.Ask, &opts, len(r.fleet.agents)))})
		return
	}
	d.charge = r.table.Charge(c.Ref, &d.req.Ask, 0)
	d.feed(admission.Picked{Host: c.Host})
}

// tallyOf says the table's reasons in the passage's words.
func tallyOf(t table.Tally) admission.Tally {
	out := admission.Tally{}
	for reason, ids := range t.IDs {
		word := map[table.Reason]string{
			table.Unheard: admission.Silent, table.Silent: admission.Silent, table.Invalid: admission.Silent,
			table.Pressure: string(host.Pressure), table.Excluded: admission.Excluded, table.NoRoom: string(host.NoRoom),
		}[table.Reason(reason)]
		if len(ids) > 0 && word != "" {
			out[word] = append(out[word], ids...)
		}
	}
	return out
}

func (d *driving) reserve(e admission.Effect) {
	last := d.replica.last[e.Host].verdict
	ev := host.Reserve{ID: e.ID, Gen: e.Gen, Ask: d.req.Ask, Until: last.At + d.replica.fleet.promiseFor(), Incarnation: last.Incarnation}
	d.reserves(e)
	d.ask(e.Host, ev, func(a host.Answer, unknown bool) {
		d.answered(e, a, unknown)
		d.replica.table.Uncharge(d.charge)
		if d.abandoned() {
			return
		}
		d.feed(admission.Reserved{Denial: a.Denial, Unknown: unknown})
	})
}

func (d *driving) keep(e admission.Effect) {
	d.duties.kept = true
	if d.replica.silent(e.Host) {
		d.feed(admission.Kept{Silent: true})
		return
	}
	var ev admission.Kept
	ok := false
	d.on(write(e.Do.String()), func(m *pool.Model) { ev.Row, ok = m.Renew(e.ID, e.Gen, bootWithin) }, func(failed bool) {
		ev.Failed, ev.Gone = failed, !ok
		if failed || !ok {
			d.feed(ev)
			return
		}
		last := d.replica.last[e.Host].verdict
		renew := host.Renew{ID: e.ID, Epoch: e.Gen, Until: last.At + d.replica.fleet.promiseFor(), Incarnation: last.Incarnation}
		d.ask(e.Host, renew, func(a host.Answer, unknown bool) {
			ev.Answer, ev.Unknown = a, unknown
			d.feed(ev)
		})
	})
}

func (d *driving) vacate(id, admissionID string, gen int64, then func(admission.Vacated)) {
	d.ask(id, host.Release{ID: admissionID, Gen: gen}, func(a host.Answer, unknown bool) {
		then(admission.Vacated{Running: a.Running, Unknown: unknown})
	})
}

// ask waits for an agent's answer, once, and for no longer than an answer may take.
func (d *driving) ask(id string, ev host.Event, then func(a host.Answer, unknown bool)) {
	answered := false
	once := func(a host.Answer, unknown bool) {
		d.replica.awake(d.life, func() {
			if answered {
				return
			}
			answered = true
			if !unknown {
				d.replica.observe(a.Verdict)
			}
			then(a, unknown)
		})
	}
	d.replica.fleet.byID[id].ask(d.replica, ev, func(a host.Answer) { once(a, false) })
	d.replica.fleet.after(answerWithin, func() { once(host.Answer{}, true) })
}

// sweep asks the most promising hosts for their newest word, and while there are fewer than
// it may ask, the others that it hears: a valve may have opened. It waits for as long as that may take.
func (d *driving) sweep() {
	r, asked := d.replica, map[string]bool{}
	ask := func(id string) {
		asked[id] = true
		r.fleet.byID[id].ask(r, host.Tick{}, func(a host.Answer) { r.awake(d.life, func() { r.observe(a.Verdict) }) })
	}
	for _, c := range r.table.Promising(r.fleet.now, &d.req.Ask, &table.PickOptions{}, nil, sweepHosts) {
		ask(c.Host)
	}
	d.sweeps(len(asked))
	for _, a := range r.fleet.agents {
		if len(asked) < sweepHosts && !asked[a.id] && !r.silent(a.id) {
			ask(a.id)
		}
	}
	r.fleet.after(sweepWithin, func() { d.feed(admission.Swept{}) })
}

// depart reads what is to be released, and releases it if it still is what the caller means:
// the placement under that epoch, zero for any.
func (r *replica) depart(id string, epoch int64, done func(admission.Answer)) {
	var row pool.Row
	r.transact(write(admission.Read.String()), func() { row, _ = r.fleet.model().ByID(id) }, func(failed bool) {
		switch {
		case failed:
			done(admission.Answer{Kind: admission.No, Code: api.Unavailable})
		case row.ID == "" || (epoch != 0 && (row.Epoch != epoch || row.State == pool.Waiting || row.State == pool.Placing)):
			done(admission.Answer{Kind: admission.No, Code: api.NotFound})
		default:
			r.release(row, func(a admission.Answer) {
				r.unstand(row)
				done(a)
			})
		}
	})
}

// unstand gives back at once what was set aside for a waiter that gave up.
func (r *replica) unstand(row pool.Row) {
	if row.StandAt != "" {
		r.fleet.byID[row.StandAt].ask(r, host.Unstand{ID: row.ID}, func(host.Answer) {})
	}
}

// release runs the production departure.
func (r *replica) release(row pool.Row, done func(admission.Answer)) {
	id := row.ID
	d := &driving{replica: r, life: r.life, req: admission.Request{Claim: pool.Claim{ID: id}}}
	leaving := admission.NewDeparture(id, row.Passage())
	acked := false
	var follow func(e admission.Effect)
	feed := func(ev admission.Event) { r.awake(d.life, func() { follow(leaving.Step(ev)) }) }
	follow = func(e admission.Effect) {
		if !r.fleet.orders.about(r, id, doing(e.Do)) {
			return
		}
		defer r.fleet.orders.began(r, id, doing(e.Do))
		switch e.Do {
		case admission.Leave:
			var ev admission.Left
			r.fleet.stall(id, 5, func() {
				d.on(writeLeave, func(m *pool.Model) { ev.Row, ev.Found = r.fleet.leave(m, row, e.Of); ev.Now = m.Now() }, func(failed bool) { ev.Failed = failed; feed(ev) })
			})
		case admission.Vacate:
			d.vacate(e.Host, e.ID, e.Gen, func(v admission.Vacated) {
				acked = !v.Unknown
				feed(v)
			})
		case admission.End:
			var ev admission.Ended
			d.on(writeEnd, func(m *pool.Model) {
				r.fleet.departed(m, e, acked)
				m.End(e.ID, e.Gen, pool.Released, "released by the caller")
				ev.Row, _ = m.ByID(e.ID)
			}, func(failed bool) { ev.Failed = failed; feed(ev) })
		case admission.Reply:
			done(*e.Reply)
		}
	}
	follow(leaving.Begin())
}
