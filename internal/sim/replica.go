package sim

import (
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// replica is one control-plane process: its own view of the hosts, its own network, and
// the one store that all share.
type replica struct {
	fleet *Fleet
	table *table.Table
	last  map[string]host.Verdict // host id -> last frame heard
}

// answerWithin is how long a replica waits for an agent before the outcome is unknown.
const answerWithin = 2 * time.Second

// hear takes a frame in: the verdict into the table, what happened into the store.
func (r *replica) hear(a *agent, n host.News) {
	r.observe(n.Verdict)
	for _, ref := range n.Tracks {
		r.fleet.transact(func() { r.fleet.model.Track(ref.ID, ref.Epoch) }, func(bool) {})
	}
	for _, e := range n.Ends {
		r.end(a, e)
	}
}

func (r *replica) observe(v host.Verdict) {
	tv := table.Verdict{
		Host: v.Host, Incarnation: v.Incarnation, Sequence: v.Sequence, Admittable: v.Admittable, Free: v.Free,
		Limit: v.Limit, MaxAsk: v.MaxAsk, CPUFreeMilli: v.CPUFreeMilli, Intake: table.Intake(v.Intake), Mode: v.Mode,
	}
	if taken, _ := r.table.Observe(&tv, r.fleet.now); taken {
		r.last[v.Host] = v
	}
}

// end writes an end and acknowledges it, unless its placing is not settled yet.
func (r *replica) end(a *agent, e host.End) {
	to := map[host.Outcome]pool.State{host.Exited: pool.Released, host.Lapsed: pool.Expired, host.Evicted: pool.Evicted}[e.How]
	again := false
	r.fleet.transact(func() { _, again = r.fleet.model.End(e.ID, e.Epoch, to, e.Reason) }, func(failed bool) {
		if !failed && !again {
			a.do(host.Acked{ID: e.ID, Epoch: e.Epoch}, func(host.Answer) {})
		}
	})
}

// passage drives the production passage to its answer.
func (r *replica) passage(req admission.Request, done func(admission.Answer)) {
	p := admission.New(admission.DefaultConfig(), req)
	d := &driving{replica: r, req: req, passage: p, done: done}
	d.follow(p.Begin(r.fleet.now))
}

// driving is one passage on its way.
type driving struct {
	replica *replica
	req     admission.Request
	passage *admission.Passage
	done    func(admission.Answer)
	charge  table.Charge
}

func (d *driving) follow(s admission.Step) {
	if s.Detached != nil {
		e := *s.Detached
		d.agent(e.Host).do(host.Release{ID: e.ID, Gen: e.Gen}, func(host.Answer) {})
	}
	if s.Effect.Do == admission.Reply {
		d.done(s.Effect.Reply)
		return
	}
	switch f := d.replica.fleet; {
	case f.chance(f.faults.dead): // the replica is killed here, and its caller's connection with it
		f.at(f.between(time.Second, 15*time.Second), func() { d.done(admission.Answer{Kind: admission.No, Code: api.Unavailable}) })
	case f.chance(f.faults.late): // the replica is paused here, perhaps for longer than a placing may take
		f.at(f.between(time.Second, 30*time.Second), func() { d.perform(s.Effect) })
	default:
		d.perform(s.Effect)
	}
}

func (d *driving) feed(ev admission.Event) { d.follow(d.passage.Step(d.replica.fleet.now, ev)) }

func (d *driving) agent(id string) *agent { return d.replica.fleet.byID[id] }

func (d *driving) perform(e admission.Effect) {
	f := d.replica.fleet
	switch e.Do {
	case admission.Claim:
		var c pool.Claimed
		f.transact(func() { c = f.claim(d.req.Claim) }, func(failed bool) { d.feed(admission.Claimed{Result: c, Failed: failed}) })
	case admission.Pick:
		d.pick(e)
	case admission.Reserve:
		d.reserve(e)
	case admission.Regen:
		var gen int64
		f.transact(func() { gen = f.model.Regen(e.ID, e.Gen) }, func(failed bool) { d.feed(admission.Regened{Gen: gen, Failed: failed}) })
	case admission.Settle:
		var ev admission.Settled
		f.transact(func() { ev.Row, ev.OK = f.model.Settle(e.ID, e.Gen, e.Host, bootWithin) }, func(failed bool) { ev.Failed = failed; d.feed(ev) })
	case admission.NoRoom:
		var c pool.Claimed
		f.transact(func() { c = f.model.NoRoom(e.ID, e.Gen, true, 0) }, func(failed bool) { d.feed(admission.NoRoomed{Result: c, Failed: failed}) })
	case admission.Keep:
		d.keep(e)
	case admission.Vacate:
		d.ask(e.Host, host.Release{ID: e.ID, Gen: e.Gen}, func(a host.Answer, unknown bool) {
			d.feed(admission.Vacated{Running: a.Running, Unknown: unknown})
		})
	case admission.Move:
		var ev admission.Moved
		f.transact(func() { ev.Row, ev.OK = f.model.Move(e.ID, e.Gen, e.Acked) }, func(failed bool) { ev.Failed = failed; d.feed(ev) })
	case admission.Read:
		var ev admission.RowRead
		f.transact(func() { ev.Row, ev.Found = f.model.ByID(e.ID) }, func(failed bool) { ev.Failed = failed; d.feed(ev) })
	case admission.Sweep:
		d.sweep()
	case admission.Pause:
		f.at(admission.DefaultConfig().Pause, func() { d.feed(admission.Paused{}) })
	}
}

func (d *driving) pick(e admission.Effect) {
	r := d.replica
	opts := table.PickOptions{Exclude: slices.Clone(e.Exclude), Rand: r.fleet.rand.Uint64(), Gross: e.Last}
	c, ok := r.table.Pick(r.fleet.now, &d.req.Ask, &opts)
	if !ok {
		d.feed(admission.Picked{Tally: admission.Tally{string(host.NoRoom): {"some"}}})
		return
	}
	d.charge = r.table.Charge(c.Ref, &d.req.Ask)
	d.feed(admission.Picked{Host: c.Host})
}

func (d *driving) reserve(e admission.Effect) {
	last := d.replica.last[e.Host]
	ev := host.Reserve{ID: e.ID, Gen: e.Gen, Ask: d.req.Ask, Until: last.At + bootWithin, Incarnation: last.Incarnation}
	d.ask(e.Host, ev, func(a host.Answer, unknown bool) {
		d.replica.table.Uncharge(d.charge)
		d.feed(admission.Reserved{Denial: a.Denial, Unknown: unknown})
	})
}

func (d *driving) keep(e admission.Effect) {
	f, last := d.replica.fleet, d.replica.last[e.Host]
	if !d.agent(e.Host).up {
		d.feed(admission.Kept{Silent: true})
		return
	}
	var ev admission.Kept
	ok := false
	f.transact(func() { ev.Row, ok = f.model.Renew(e.ID, e.Gen, bootWithin) }, func(failed bool) {
		ev.Failed, ev.Gone = failed, !ok
		if failed || !ok {
			d.feed(ev)
			return
		}
		renew := host.Renew{ID: e.ID, Epoch: e.Gen, Until: last.At + bootWithin, Incarnation: last.Incarnation}
		d.ask(e.Host, renew, func(a host.Answer, unknown bool) {
			ev.Answer, ev.Unknown = a, unknown
			d.feed(ev)
		})
	})
}

// ask waits for an agent's answer, once, and for no longer than an answer may take.
func (d *driving) ask(id string, ev host.Event, then func(a host.Answer, unknown bool)) {
	f, answered := d.replica.fleet, false
	once := func(a host.Answer, unknown bool) {
		if !answered {
			answered = true
			if !unknown {
				d.replica.observe(a.Verdict)
			}
			then(a, unknown)
		}
	}
	d.agent(id).do(ev, func(a host.Answer) { once(a, false) })
	f.at(answerWithin, func() { once(host.Answer{}, true) })
}

// sweep asks every host for its newest word, for as long as a sweep may take.
func (d *driving) sweep() {
	r := d.replica
	for _, a := range r.fleet.agents {
		a.do(host.Tick{}, func(answer host.Answer) { r.observe(answer.Verdict) })
	}
	r.fleet.at(50*time.Millisecond, func() { d.feed(admission.Swept{}) })
}
