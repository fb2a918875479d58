package herd

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// passage is one create on its way through a replica. What a store answers takes no time and is
// never no: the class is one whose host alone keeps the record.
type passage struct {
	*deltas
	side    *replica
	create  *create
	rule    *admission.Passage
	row     pool.Row
	charge  table.Charge
	host    int // that is asked
	sweptAt time.Duration
}

// come begins a passage.
func (d *deltas) come(r int, c *create) {
	p := &passage{
		deltas: d, side: &d.sides[r], create: c, row: pool.Row{State: pool.Placing, Gen: 1},
		rule: admission.New(d.cfg, admission.Request{Ask: d.ask, ByHost: true}),
	}
	p.perform(p.rule.Begin(d.now).Effect)
}

// feed steps the passage with what came of its last effect.
func (p *passage) feed(ev admission.Event) { p.perform(p.rule.Step(p.now, ev).Effect) }

func (p *passage) perform(e admission.Effect) {
	switch e.Do {
	case admission.Claim:
		p.feed(admission.Claimed{Result: pool.Claimed{Verdict: pool.Granted, Row: p.row}})
	case admission.Pick:
		p.pick(&e)
	case admission.Reserve:
		p.reserve(&e)
	case admission.Settle:
		p.row.ID, p.row.Host, p.row.Epoch, p.row.State = e.ID, e.Host, admission.ByHostEpoch, pool.Admitted
		p.feed(admission.Settled{Row: p.row, OK: true})
	case admission.NoRoom:
		p.feed(admission.NoRoomed{Result: pool.Claimed{Verdict: pool.PoolFull, Row: p.row}})
	case admission.Sweep:
		p.sweptAt = p.now
		p.side.waiting = append(p.side.waiting, p)
		if !p.side.sweeping {
			p.sweep(p.side)
		}
	case admission.Pause:
		p.hand(p.side.number, p.cfg.Pause, func() { p.feed(admission.Paused{}) })
	case admission.Reply:
		p.reply(e.Reply)
	default:
		panic(fmt.Sprintf("herd: a create without faults asked for %v", e.Do))
	}
}

// pick chooses and charges.
func (p *passage) pick(e *admission.Effect) {
	t := p.side.table
	o := table.PickOptions{Exclude: e.Exclude, Rand: p.rand.Uint64(), Gross: e.Last, HeardSince: p.sweptAt}
	c, ok := t.Pick(p.now, &p.ask, &o)
	if !ok {
		p.feed(admission.Picked{})
		return
	}
	p.charge = t.Charge(c.Ref, &p.ask, 0)
	p.feed(admission.Picked{Host: c.Host, ID: admission.HostID(c.Host, pool.Time(p.now/time.Millisecond), p.rand.Uint64())})
}

// reserve asks the host, and takes in what it says.
func (p *passage) reserve(e *admission.Effect) {
	p.got.calls++
	p.host = p.numbers[e.Host]
	ask := host.Reserve{ID: e.ID, Gen: e.Gen, Ask: p.ask, Until: p.now + p.cfg.BootWithin, Incarnation: incarnation}
	p.hand(processOf(p.host), oneWay, func() {
		a := p.step(p.host, ask)
		if a.Denial == "" {
			p.hold(p.host)
			p.create.taken = p.now
		} else {
			p.got.denied++
		}
		p.hand(p.side.number, oneWay, func() {
			p.observe(p.side.number, wordOf(&a.Verdict))
			p.side.table.Uncharge(p.charge)
			p.feed(admission.Reserved{Denial: a.Denial})
		})
	})
}

// sweep asks the most promising hosts for their newest word, for all who came before it began.
func (d *deltas) sweep(r *replica) {
	r.sweeping = true
	mine := r.waiting
	r.waiting = nil
	r.choices = r.table.Promising(d.now, &d.ask, &table.PickOptions{}, r.choices[:0], control.SweepHosts)
	words := make([]*table.Verdict, len(r.choices))
	for i, c := range r.choices {
		h := d.numbers[c.Host]
		d.hand(processOf(h), oneWay, func() {
			a := d.step(h, host.Tick{})
			words[i] = wordOf(&a.Verdict)
		})
	}
	d.after(oneWay, func() {
		d.hand(r.number, oneWay, func() { d.swept(r, mine, words) })
	})
}

// swept has them go on, and begins with those who came meanwhile.
func (d *deltas) swept(r *replica, mine []*passage, words []*table.Verdict) {
	for _, v := range words {
		d.observe(r.number, v)
	}
	for _, p := range mine {
		p.feed(admission.Swept{})
	}
	if r.sweeping = len(r.waiting) > 0; r.sweeping {
		d.sweep(r)
	}
}

// reply tells the caller, who boots at once what was promised.
func (p *passage) reply(a *admission.Answer) {
	yes := a.Kind == admission.Yes
	p.answer(p.create, yes)
	if yes {
		p.hand(processOf(p.host), oneWay, func() { p.boot(a.Row.ID) })
	}
}

// boot redeems the promise, and has the sandbox end in its time.
func (p *passage) boot(id string) {
	for _, ev := range []host.Event{host.Redeem{ID: id, Epoch: admission.ByHostEpoch}, host.Track{ID: id, Epoch: admission.ByHostEpoch}} {
		if a := p.step(p.host, ev); a.Denial != "" {
			panic(fmt.Sprintf("herd: %s does not boot what it promised: %s", a.Verdict.Host, a.Denial))
		}
	}
	if p.create.life == forever {
		return
	}
	p.at(p.create.taken+p.create.life, func() {
		p.free(p.host)
		p.step(p.host, host.Done{ID: id, Epoch: admission.ByHostEpoch})
	})
}
