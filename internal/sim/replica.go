package sim

import (
	"time"

	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// replica is one control-plane process: its own view of the hosts, and the one store that
// all share.
type replica struct {
	fleet   *Fleet
	index   int
	up      bool
	life    int // rises with every end: what an earlier life had under way is void
	doze    doze
	table   *table.Table
	last    map[string]heard // host id -> the last frame heard
	unsound map[string]bool  // hosts whose newest word cannot be true: they have not measured yet
	fresh   map[string]bool  // hosts that were heard since the pulse last said so
	keys    ticket.Keyring
	slots   *hint.Estimator
	book    hint.Book
	looks   int             // comparisons of hosts with the store
	differs map[string]bool // hosts that were compared -> what they hold was not the store's
}

// heard is a host's last frame.
type heard struct {
	verdict host.Verdict
	at      time.Duration
}

const (
	answerWithin   = 500 * time.Millisecond
	silentAfter    = 30 * time.Second
	tidyEvery      = 10 * time.Second
	bootWithin     = time.Minute
	sweepHosts     = 32
	sweepWithin    = 50 * time.Millisecond
	presentFor     = pool.PresentFor
	presentEvery   = 2 * time.Second
	retryEndsAfter = 250 * time.Millisecond
)

// start begins a life: it has heard nobody yet.
func (r *replica) start() {
	r.up = true
	r.table = table.New(table.Options{Silent: silentAfter})
	r.last, r.unsound, r.fresh = map[string]heard{}, map[string]bool{}, map[string]bool{}
	r.slots, r.book = hint.NewEstimator(0), hint.Book{}
	r.looks, r.differs = 0, map[string]bool{}
	r.slots.Observe(r.fleet.now, 0)
	for _, a := range r.fleet.agents {
		r.table.Register(table.Registration{Host: a.id, Mode: a.cfg.Mode, MaxAsk: a.memory})
	}
	life := r.life
	tidily := func() time.Duration { return tidyEvery }
	r.every(life, tidily, r.sweep)
	r.every(life, tidily, r.reconcile)
	r.every(life, func() time.Duration { return pool.PulseFor(r.fleet.gap()) }, r.pulse)
}

// every does something again and again, for as long as this life lasts.
func (r *replica) every(life int, period func() time.Duration, do func()) {
	r.fleet.after(r.fleet.between(0, period()), func() {
		if r.up && r.life == life {
			if !r.doze.on(r.fleet.now) {
				do()
			}
			r.every(life, period, do)
		}
	})
}

// kill ends the replica: its passages are gone, and their callers' connections.
func (r *replica) kill(away time.Duration) {
	if !r.up {
		return
	}
	r.up = false
	r.life++
	r.doze.end()
	r.fleet.after(away, r.start)
}

// awake does something now, when the pause is over, or never if this life has ended.
func (r *replica) awake(life int, do func()) {
	if r.up && r.life == life {
		r.doze.unless(r.fleet.now, do)
	}
}

// hear takes a frame in: the verdict into the table, what happened into the store.
func (r *replica) hear(a *agent, n host.News) {
	r.awake(r.life, func() {
		r.observe(n.Verdict)
		for _, ref := range n.Tracks {
			r.track(ref)
		}
		for _, ref := range n.Reopens {
			r.reopen(ref)
		}
		for _, e := range n.Ends {
			r.end(a, e, 3)
		}
	})
}

func (r *replica) observe(v host.Verdict) {
	tv := table.Verdict{
		Host: v.Host, Incarnation: v.Incarnation, Sequence: v.Sequence, Admittable: v.Admittable, Free: v.Free,
		Limit: v.Limit, MaxAsk: v.MaxAsk, CPUFreeMilli: v.CPUFreeMilli, Intake: table.Intake(v.Intake), Mode: v.Mode,
		Standing: v.Standing, Limits: v.Limits,
	}
	taken, err := r.table.Observe(&tv, r.fleet.now)
	r.fresh[v.Host] = true
	r.unsound[v.Host] = err != nil || (r.unsound[v.Host] && !taken)
	if taken {
		r.checkNews(v)
		r.last[v.Host] = heard{v, r.fleet.now}
	}
}

// silent says whether a host was not heard for so long that it is not asked anything.
func (r *replica) silent(id string) bool {
	h, ok := r.last[id]
	return !ok || r.fleet.now-h.at >= silentAfter
}

// transact is a transition whose answer only this life of the replica can hear.
func (r *replica) transact(what write, do func(), then func(failed bool)) {
	life := r.life
	r.fleet.store.transact(what, do, func(failed bool) { r.awake(life, func() { then(failed) }) })
}

// end writes an end, a few times if need be, and acknowledges it; the host tells again what
// nobody acknowledged.
func (r *replica) end(a *agent, e host.End, tries int) {
	to := map[host.Outcome]pool.State{host.Exited: pool.Released, host.Lapsed: pool.Expired, host.Evicted: pool.Evicted}[e.How]
	written, again := false, false
	r.transact(writeEnd, func() {
		written, again = r.fleet.model().End(e.ID, e.Epoch, to, e.Reason)
		r.fleet.store.touched(e.ID)
	}, func(failed bool) {
		switch {
		case (failed || again) && tries > 0:
			r.fleet.after(retryEndsAfter, func() { r.awake(r.life, func() { r.end(a, e, tries-1) }) })
		case !failed && !again:
			if written {
				r.fleet.tell("%s/%d on %s is %s: %s", e.ID, e.Epoch, a.id, to, e.Reason)
				r.slots.Observe(r.fleet.now, 1)
			}
			a.ask(r, host.Acked{ID: e.ID, Epoch: e.Epoch}, func(host.Answer) {})
		}
	})
}

// sweep is the store's hygiene.
func (r *replica) sweep() {
	r.transact(writeSweep, func() { r.fleet.sweepStore() }, func(bool) {})
}

// mint makes the ticket of a row, as any replica can.
func (r *replica) mint(row pool.Row) (ticket.Text, bool) {
	keys, err := r.keys.Audience(audience(&row))
	if err != nil {
		return "", false
	}
	text, err := keys.Mint(&ticket.Claims{
		Consumer: row.Consumer, Key: row.Key, Pool: row.Pool, Class: row.Class, Tenant: row.Tenant,
		AdmissionID: row.ID, Epoch: row.Epoch, Issued: row.AdmittedAt.Wall(), Expires: row.ReservedUntil.Wall(),
	})
	return text, err == nil
}
