package control

import (
	"cmp"
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
	"github.com/plimsoll-project/plimsoll/table"
)

// drive runs one passage to its answer. It goes on when its caller hangs up, so that
// nothing stays half done; it has a deadline of its own, and so has each question to a host.
func (g *Gateway) drive(ctx context.Context, req admission.Request, pin table.PickOptions) admission.Answer {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedFor)
	defer cancel()
	d := driving{gateway: g, req: req, pin: pin}
	d.begin(ctx)
	return d.run(ctx)
}

// driving is one passage's shell.
type driving struct {
	gateway *Gateway
	req     admission.Request
	pin     table.PickOptions
	passage *admission.Passage
	next    admission.Effect
	charge  table.Charge // of the host that is being asked
	swept   bool
	sweptAt time.Duration // when the sweep began
	left    time.Duration // that the last promise is good for
	would   []string      // what enforce would have said on the way
}

func (d *driving) begin(ctx context.Context) {
	d.passage = admission.New(d.gateway.Passage, d.req)
	d.enter(ctx, d.passage.Begin(d.gateway.Now()))
}

// run goes on to the answer.
func (d *driving) run(ctx context.Context) admission.Answer {
	for d.next.Do != admission.Reply {
		d.take(ctx, d.perform(ctx, d.next))
	}
	return d.show(*d.next.Reply)
}

// take steps the passage with what came of its last effect.
func (d *driving) take(ctx context.Context, ev admission.Event) {
	d.enter(ctx, d.passage.Step(d.gateway.Now(), ev))
}

func (d *driving) enter(ctx context.Context, s admission.Step) {
	if s.Detached != nil {
		go d.gateway.vacateDetached(context.WithoutCancel(ctx), *s.Detached)
	}
	d.next = s.Effect
}

func (d *driving) perform(ctx context.Context, e admission.Effect) admission.Event {
	if d.req.ByHost {
		if ev := d.performByHost(ctx, &e); ev != nil {
			return ev
		}
	}
	store := d.gateway.Store
	switch e.Do {
	case admission.Claim:
		c, err := store.Claim(ctx, d.req.Claim)
		d.wouldHave(wouldCode(c.Would))
		return admission.Claimed{Result: c, Failed: d.failed(err)}
	case admission.Pick:
		return d.pick(e)
	case admission.Reserve:
		return d.reserve(ctx, e)
	case admission.Regen:
		gen, err := store.Regen(ctx, e.ID, e.Gen)
		return admission.Regened{Gen: gen, Failed: d.failed(err)}
	case admission.Settle:
		row, ok, err := store.Settle(ctx, e.ID, e.Gen, e.Host, d.gateway.Passage.BootWithin)
		return admission.Settled{Row: row, OK: ok, Failed: d.failed(err)}
	case admission.NoRoom:
		c, err := store.NoRoom(ctx, e.ID, e.Gen, true, d.req.Claim.Present)
		if err == nil {
			d.gateway.wakes.slotBack(e.ID)
		}
		return admission.NoRoomed{Result: c, Failed: d.failed(err)}
	case admission.Keep:
		return d.keep(ctx, e)
	case admission.Hear:
		row, ok, err := store.Hear(ctx, e.ID, e.Gen)
		return admission.Heard{Row: row, OK: ok, Failed: d.failed(err)}
	case admission.PickStand:
		return d.pickStand(e)
	case admission.Stand:
		return d.stand(ctx, e)
	case admission.NoteStand:
		_, err := store.Stand(ctx, e.ID, e.Host)
		d.failed(err)
		return admission.StandNoted{}
	case admission.Vacate:
		return d.gateway.vacate(ctx, e)
	case admission.Move:
		row, ok, err := store.Move(ctx, e.ID, e.Gen, e.Acked)
		return admission.Moved{Row: row, OK: ok, Failed: d.failed(err)}
	case admission.Read:
		row, found, err := store.ByID(ctx, e.ID)
		return admission.RowRead{Row: row, Found: found, Failed: d.failed(err)}
	case admission.Sweep:
		d.swept, d.sweptAt = true, d.gateway.Now()
		d.gateway.sweepFor(ctx, d.req.Claim.Contents.Kind(), &d.req.Ask, &d.pin)
		return admission.Swept{}
	case admission.Pause:
		d.pause(ctx)
		return admission.Paused{}
	}
	return nil
}

func (d *driving) failed(err error) bool { return d.gateway.failed(err, "key", d.req.Claim.Key) }

// failed counts and logs an unknown outcome of the store, once, where it is seen.
func (g *Gateway) failed(err error, about, name string) bool {
	if err != nil {
		g.Metrics.StoreErrors.Inc()
		g.Log.Error("store transition failed; its outcome is unknown", about, name, "err", err)
	}
	return err != nil
}

// pick chooses and charges in one locked step, so that concurrent picks see each other.
func (d *driving) pick(e admission.Effect) admission.Event {
	g := d.gateway
	opts := d.pin
	opts.Exclude, opts.Rand, opts.Gross = e.Exclude, g.Rand(), e.Last
	opts.HeardSince, opts.Cohort = d.sweptAt, d.cohort()
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.Host != "" {
		return d.pickOwn(e.Host)
	}
	c, ok := g.table.Pick(g.Now(), &d.req.Ask, &opts)
	if !ok && !d.swept {
		return admission.Picked{} // what was known before the sweep is told to nobody
	}
	if !ok {
		// Every id, so that the counts are true; the surface names the first few.
		return admission.Picked{Tally: tallyOf(g.table.Explain(g.Now(), &d.req.Ask, &opts, g.table.Len()))}
	}
	d.charge = g.table.Charge(c.Ref, &d.req.Ask, opts.Cohort)
	return d.named(c.Host)
}

// tallyOf says the table's reasons in the passage's words.
func tallyOf(t table.Tally) admission.Tally {
	out := admission.Tally{}
	put := func(word string, ids []string) {
		if len(ids) > 0 {
			out[word] = append(out[word], ids...)
		}
	}
	for r, ids := range t.IDs {
		switch reason := table.Reason(r); reason {
		case table.Unheard, table.Silent, table.Invalid:
			put(admission.Silent, ids)
		case table.Quarantined:
			put(admission.Quarantined, ids)
		case table.Pressure:
			put(string(host.Pressure), ids)
		case table.Cordoned:
			put(string(host.Cordoned), ids)
		case table.Draining:
			put(string(host.Draining), ids)
		case table.Labels:
			put(string(host.LacksLabel), ids)
		case table.Excluded:
			put(admission.Excluded, ids)
		case table.NoRoom:
			put(string(host.NoRoom), ids)
		}
	}
	for _, dim := range t.Dims {
		put(string(host.LacksDim)+":"+dim.Name, dim.IDs)
	}
	return out
}

// reserve asks the host, until an instant of its own clock: the last frame heard of it.
func (d *driving) reserve(ctx context.Context, e admission.Effect) admission.Event {
	link, last, _ := d.gateway.link(e.Host)
	if link == nil {
		return d.unasked(e.Host)
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answer, err := link.Do(ctx, d.reservation(&e, &last))
	return d.reserved(&e, &answer, err)
}

// unasked is a host that cannot be asked at all.
func (d *driving) unasked(hostID string) admission.Event {
	d.came(hostID, false, false)
	return admission.Reserved{Unknown: true}
}

// reservation is what a host is asked for.
func (d *driving) reservation(e *admission.Effect, last *host.Verdict) host.Reserve {
	return host.Reserve{
		ID: e.ID, Gen: e.Gen, Ask: d.req.Ask,
		Until: last.At + d.gateway.Passage.BootWithin, Incarnation: last.Incarnation, Whose: d.whose(),
	}
}

// reserved takes in what a host said, or that it said nothing.
func (d *driving) reserved(e *admission.Effect, answer *host.Answer, err error) admission.Event {
	g := d.gateway
	promised := err == nil && answer.Denial == ""
	defer func() { d.came(e.Host, err == nil, promised) }()
	if err != nil {
		g.Log.Warn("reserve not answered", "host", e.Host, "id", e.ID, "err", err)
		g.Metrics.Reserves.WithLabelValues("unknown").Inc()
		return admission.Reserved{Unknown: true}
	}
	g.Metrics.Reserves.WithLabelValues(said(promised)).Inc()
	g.observe(answer.Verdict)
	d.left = answer.Until - answer.Verdict.At
	d.wouldHave(string(answer.Would))
	return admission.Reserved{Denial: answer.Denial}
}

func said(promised bool) string {
	if promised {
		return "reserved"
	}
	return "denied"
}

// keep renews a reservation: in the store first, so that nobody takes it for lapsed while
// the host still keeps it. A silent host is not renewed at all.
func (d *driving) keep(ctx context.Context, e admission.Effect) admission.Event {
	g := d.gateway
	link, last, silent := g.link(e.Host)
	if silent {
		return admission.Kept{Silent: true}
	}
	row, ok, err := g.Store.Renew(ctx, e.ID, e.Gen, g.Passage.BootWithin)
	if d.failed(err) {
		return admission.Kept{Failed: true}
	}
	if !ok {
		return admission.Kept{Gone: true}
	}
	answer, err := g.renew(ctx, link, &last, &e)
	if err != nil {
		return admission.Kept{Unknown: true}
	}
	return admission.Kept{Row: row, Answer: answer}
}

// renew asks a host to keep a reservation. That it drains counts whether it was told yet or not.
func (g *Gateway) renew(ctx context.Context, link Link, last *host.Verdict, e *admission.Effect) (host.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answer, err := link.Do(ctx, host.Renew{
		ID: e.ID, Epoch: e.Gen, Until: last.At + g.Passage.BootWithin, Incarnation: last.Incarnation,
	})
	if err != nil {
		return answer, err
	}
	g.observe(answer.Verdict)
	if g.stateOf(e.Host) == registry.Draining {
		answer.Verdict.Intake = host.IntakeDraining
	}
	return answer, nil
}

// vacate asks a host to let go of a placement.
func (g *Gateway) vacate(ctx context.Context, e admission.Effect) admission.Vacated {
	link, _, _ := g.link(e.Host)
	if link == nil {
		return admission.Vacated{Unknown: true}
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answer, err := link.Do(ctx, host.Release{ID: e.ID, Gen: e.Gen})
	if err != nil {
		return admission.Vacated{Unknown: true}
	}
	g.observe(answer.Verdict)
	return admission.Vacated{Running: answer.Running}
}

// vacateDetached is the release that survives its caller. It asks until it is heard, for a
// while; what it cannot reach lapses.
func (g *Gateway) vacateDetached(ctx context.Context, e admission.Effect) {
	ctx, cancel := context.WithTimeout(ctx, detachedFor)
	defer cancel()
	for g.vacate(ctx, e).Unknown {
		select {
		case <-time.After(vacateAgainAfter):
		case <-ctx.Done():
			g.Log.Warn("release not acknowledged; the reservation lapses by itself", "host", e.Host, "id", e.ID)
			return
		}
	}
}

func (d *driving) pause(ctx context.Context) {
	t := time.NewTimer(d.gateway.Passage.Pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// depart runs a release to its answer, whether its caller waits or not.
func (g *Gateway) depart(ctx context.Context, row pool.Row) admission.Answer {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedFor)
	defer cancel()
	d := admission.NewDeparture(row.ID, row.Passage())
	e := d.Begin()
	for e.Do != admission.Reply {
		e = d.Step(g.leave(ctx, &row, e))
	}
	if e.Reply.Kind == admission.Going && byHost(&row) { // no sweep asks again
		go g.vacateDetached(context.WithoutCancel(ctx), admission.Effect{Host: row.Host, ID: row.ID, Gen: row.Epoch})
	}
	g.wakes.nudge(row.ID)
	g.wakes.wake()
	return *e.Reply
}

func (g *Gateway) leave(ctx context.Context, row *pool.Row, e admission.Effect) admission.Event {
	if byHost(row) && e.Do != admission.Vacate {
		return g.leaveByHost(row, e)
	}
	switch e.Do {
	case admission.Leave:
		row, found, err := g.Store.Leave(ctx, e.ID, e.Of)
		now, errNow := g.Store.Now(ctx)
		return admission.Left{Row: row, Found: found, Now: now, Failed: g.failed(cmp.Or(err, errNow), "id", e.ID)}
	case admission.Vacate:
		return g.vacate(ctx, e)
	case admission.End:
		_, _, err := g.Store.End(ctx, e.ID, e.Gen, pool.Released, "released by the caller")
		row, found, errRow := g.Store.ByID(ctx, e.ID)
		return admission.Ended{Row: row, Failed: g.failed(cmp.Or(err, errRow), "id", e.ID) || !found}
	}
	return nil
}

// needOf is what an ask is charged on a host of this mode, for the answer's figures.
func needOf(a gate.Ask, m gate.Mode) int64 { return gate.Need(a, m).CeilMiB() }
